import type { RequestReason } from '../../../distribution/requests.ts'
import { type Id, isId } from '../../../kernel/ids.ts'
import { asksForCertificate, mutualTlsValue } from '../maps/name_entries.ts'

/** A client whose certificate an edge with mutual TLS refused in the handshake. */
export type RefusedHandshake = { account: Id<'ac'>; edge: Id<'edghts'>; reason: RequestReason }

/** Parses `handshake` of request_lines.ts. Undefined if the handshake failed for another reason, or at another edge. */
export function readHandshake(fault: string, exact: string, wildcard: string): RefusedHandshake | undefined {
  const reason = reasonOf(fault)
  if (reason === undefined) return undefined
  for (const text of [exact, wildcard]) {
    const at = text.indexOf('|')
    const edge = text.slice(asksForCertificate.length, at)
    const { account = '' } = mutualTlsValue.parse(text.slice(at + 1))
    if (text.startsWith(asksForCertificate) && isId('edghts', edge) && isId('ac', account))
      return { account, edge, reason }
  }
  return undefined
}

/** OpenSSL's codes for certificates that are not yet valid or have expired. */
const outOfTime = ['9', '10']

function reasonOf(text: string): RequestReason | undefined {
  const [, certificate = '0', authority = '0', words = ''] = text.split('|')
  const found = [certificate, authority].find((code) => /^[1-9]/.test(code))
  if (found !== undefined)
    return outOfTime.includes(found) ? 'client_certificate_expired' : 'client_certificate_untrusted'
  if (words.includes('peer did not return a certificate')) return 'client_certificate_missing'
  // A signature whose key or algorithm OpenSSL considers too weak, or which does not match the certificate.
  return /bad signature|wrong signature type|digest check failed|too small|too weak/.test(words)
    ? 'client_certificate_untrusted'
    : undefined
}
