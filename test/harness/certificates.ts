import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export type NewCertificate = { certificate_pem: string; private_key_pem: string }
type Options = {
  key?: readonly string[]
  /** In days; negative for one that has expired. */
  days?: number
  /** Signed by it, and with its chain. Default: by itself. */
  issuer?: NewCertificate
  isAuthority?: boolean
  extensions?: readonly string[]
}

export const ecKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1']

/** A certificate with its key, made by openssl as a person would. */
export function newCertificate(
  names: readonly string[],
  { key = ecKey, days = 30, issuer, isAuthority = false, extensions = [] }: Options = {},
): NewCertificate {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-certificate-'))
  const openssl = (...args: string[]) =>
    execFileSync('openssl', args, { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] })
  const read = (file: string) => readFileSync(join(folder, file), 'utf8')
  try {
    const lines = [
      ...(names.length
        ? [`subjectAltName=${names.map((name) => (/^[\d.:]+$/.test(name) ? `IP:${name}` : `DNS:${name}`)).join(',')}`]
        : []),
      `basicConstraints=critical,CA:${isAuthority ? 'TRUE' : 'FALSE'}`,
      ...extensions,
    ]
    writeFileSync(join(folder, 'extensions'), lines.join('\n'))
    const subject = `/CN=${names[0] ?? 'no name'}/O=Gatehouse tests`
    openssl('req', '-new', ...key, '-nodes', '-subj', subject, '-keyout', 'key.pem', '-out', 'request.pem')
    if (issuer) {
      writeFileSync(join(folder, 'issuer.pem'), issuer.certificate_pem)
      writeFileSync(join(folder, 'issuer.key'), issuer.private_key_pem)
    }
    const signer = issuer ? ['-CA', 'issuer.pem', '-CAkey', 'issuer.key', '-CAcreateserial'] : ['-key', 'key.pem']
    openssl(
      'x509',
      '-req',
      '-in',
      'request.pem',
      ...signer,
      '-days',
      String(days),
      '-extfile',
      'extensions',
      '-out',
      'certificate.pem',
    )
    return {
      certificate_pem: read('certificate.pem') + (issuer?.certificate_pem ?? ''),
      private_key_pem: read('key.pem'),
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
