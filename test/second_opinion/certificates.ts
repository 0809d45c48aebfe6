// What client certificates decide, written from docs/guides/client-certificates.md alone, like specification.ts.
import { X509Certificate } from 'node:crypto'
import { authority, type Issued, issue } from '../harness/client_pki.ts'
import type { Header, HttpRequest, Module } from './specification.ts'

export type MutualTls = { mode: 'required' | 'optional'; certificate_authorities: string[] }

const pemOf = ({ pem }: Issued): string => `${new X509Certificate(pem).toString().trimEnd()}\n`
const [first, second, stranger] = ['First', 'Second', 'Stranger'].map((name) => authority(`/O=Tests/CN=${name}`)) as [
  Issued,
  Issued,
  Issued,
]
/** Those that edges may have. */
export const authorityPems = [first, second].map(pemOf)
const clientOf = (name: string, issuer: Issued, more: Parameters<typeof issue>[0] = {}) => ({
  ...issue({ subject: `/O=Tests/CN=${name}`, issuer, ...more }),
  name,
  issuer,
})
const clients = {
  first: clientOf('of the first', first),
  second: clientOf('of the second', second),
  expired: clientOf('late', first, { from: -20, to: -1 }),
  server: clientOf('no client', second, { extensions: ['basicConstraints=CA:FALSE', 'extendedKeyUsage=serverAuth'] }),
  stranger: clientOf('a stranger', stranger),
}
export type ClientName = keyof typeof clients | 'none'
export const clientNames: readonly ClientName[] = ['first', 'first', 'second', 'none', 'expired', 'server', 'stranger']

/** What a client has for the handshake. It sends it only where it is asked. */
export const certificateOf = (name: ClientName): { cert?: string; key?: string } =>
  name === 'none' ? {} : { cert: clients[name].pem + clients[name].chain, key: clients[name].key }

/** Without what only says what the certificates are. */
export const mutualTlsOf = (module: Module<MutualTls>): Module<MutualTls> =>
  module && {
    enabled: module.enabled,
    mode: module.mode,
    certificate_authorities: module.certificate_authorities,
  }

/** 'What is refused': in the handshake, with the reason that the access log has. */
export function handshakeFault(module: Module<MutualTls>, name: ClientName): string | undefined {
  if (!module?.enabled) return undefined
  if (name === 'none') return module.mode === 'required' ? 'client_certificate_missing' : undefined
  const { issuer } = clients[name]
  if (!module.certificate_authorities.includes(pemOf(issuer))) return 'client_certificate_untrusted'
  if (name === 'expired') return 'client_certificate_expired'
  return name === 'server' ? 'client_certificate_untrusted' : undefined
}

/** 'What the upstream gets'. */
export function certificateHeaders(module: Module<MutualTls>, { client }: Pick<HttpRequest, 'client'>): Header[] {
  if (!module?.enabled) return []
  if (client === 'none') return [['x-client-certificate-verification', 'none']]
  const { pem, name } = clients[client]
  return [
    ['x-client-certificate-verification', 'verified'],
    ['x-client-certificate-subject', `O=Tests,CN=${name}`],
    ['x-client-certificate-sha256', new X509Certificate(pem).fingerprint256.replaceAll(':', '').toLowerCase()],
  ]
}
