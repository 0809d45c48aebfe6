import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ecKey } from './certificates.ts'

/** `chain`: what a client sends after its own certificate. */
export type Issued = { pem: string; key: string; chain: string }
type Wanted = {
  subject?: string
  /** By itself when not given. */
  issuer?: Issued
  extensions?: readonly string[]
  /** Days from now. */
  from?: number
  to?: number
  digest?: string
  key?: readonly string[]
}

export const authorityExtensions = ['basicConstraints=critical,CA:TRUE', 'keyUsage=critical,keyCertSign,cRLSign']
export const clientExtensions = ['basicConstraints=CA:FALSE', 'extendedKeyUsage=clientAuth']

const at = (days: number): string => new Date(Date.now() + days * 86_400_000).toISOString().replace(/\.\d+|[-:T]/g, '')

/** Made by `openssl ca`, which alone can make a certificate that is not valid yet. */
export function issue({
  subject = '/CN=client',
  issuer,
  extensions = clientExtensions,
  from = -1,
  to = 30,
  digest = 'sha256',
  key = ecKey,
}: Wanted = {}): Issued {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-clients-'))
  const openssl = (...args: string[]) =>
    execFileSync('openssl', args, { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] })
  const read = (file: string) => readFileSync(join(folder, file), 'utf8')
  const config = `[ca]
default_ca = it
[it]
database = index
new_certs_dir = .
rand_serial = yes
policy = any
unique_subject = no
email_in_dn = yes
[any]
commonName = optional
organizationName = optional
`
  try {
    writeFileSync(join(folder, 'ca.cnf'), config)
    writeFileSync(join(folder, 'index'), '')
    writeFileSync(join(folder, 'extensions'), extensions.join('\n'))
    openssl('req', '-new', ...key, '-nodes', '-subj', subject, '-keyout', 'key.pem', '-out', 'request.pem', '-utf8')
    if (issuer) {
      writeFileSync(join(folder, 'issuer.pem'), issuer.pem)
      writeFileSync(join(folder, 'issuer.key'), issuer.key)
    }
    openssl(
      ...['ca', '-batch', '-notext', '-config', 'ca.cnf', '-in', 'request.pem', '-out', 'certificate.pem'],
      ...['-startdate', at(from), '-enddate', at(to), '-md', digest, '-extfile', 'extensions', '-utf8'],
      ...(issuer ? ['-cert', 'issuer.pem', '-keyfile', 'issuer.key'] : ['-selfsign', '-keyfile', 'key.pem']),
    )
    return { pem: read('certificate.pem'), key: read('key.pem'), chain: issuer ? issuer.pem + issuer.chain : '' }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

export const authority = (subject: string, wanted: Wanted = {}): Issued =>
  issue({ subject, extensions: authorityExtensions, ...wanted })

/** One byte is another, in what is signed (`front`) or in the signature (`end`). */
export function tampered({ pem, ...rest }: Issued, where: 'front' | 'end'): Issued {
  const der = Buffer.from(pem.replaceAll(/-----[^-]+-----|\s/g, ''), 'base64')
  const place = where === 'end' ? der.length - 3 : der.indexOf('client') + 2
  der.writeUInt8(der.readUInt8(place) ^ 1, place)
  const lines = der.toString('base64').match(/.{1,64}/g) ?? []
  return { ...rest, pem: `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n` }
}
