import { X509Certificate } from 'node:crypto'
import { authorityLimits } from '../edge/mutual_tls.ts'
import { certificateLimits } from './certificate.ts'

/** Completes '<field> …'. Never repeats the input, which may be a private key. */
export type AuthorityFault = { place: string; fault: string }

export const readAuthority = (pem: string): X509Certificate => new X509Certificate(pem)

/**
 * Detects what would make a node refuse the list, or reject every client: a chain must end in a self-signed certificate
 * of the list.
 */
export function authoritiesFault(pems: readonly string[], now: number): AuthorityFault | undefined {
  const certificates: X509Certificate[] = []
  for (const [index, pem] of pems.entries()) {
    const place = `certificate_authorities[${index}]`
    const found = readOne(pem)
    if (typeof found === 'string') return { place, fault: found }
    const fault = authorityFault(found, now)
    if (fault) return { place, fault }
    const twice = certificates.findIndex(({ fingerprint256 }) => fingerprint256 === found.fingerprint256)
    if (twice >= 0) return { place, fault: `repeats number ${twice + 1}` }
    certificates.push(found)
  }
  const unrooted = certificates.findIndex((certificate) => !isRooted(certificate, certificates))
  if (unrooted >= 0)
    return {
      place: `certificate_authorities[${unrooted}]`,
      fault:
        'was issued by an authority that is not in the list. Add its issuers, up to the one that issued itself: without that one no client certificate can be verified',
    }
  const bytes = canonicalAuthorities(pems).reduce((sum, { length }) => sum + length, 0)
  if (bytes > authorityLimits.allBytes)
    return {
      place: 'certificate_authorities',
      fault: `must be at most ${authorityLimits.allBytes} bytes of PEM together`,
    }
  return undefined
}

/** Strips everything except the certificates. */
export const canonicalAuthorities = (pems: readonly string[]): string[] =>
  pems.map((pem) => `${readAuthority(pem).toString().trimEnd()}\n`)

function readOne(pem: string): X509Certificate | string {
  if (/PRIVATE KEY/.test(pem)) return 'contains a private key. Send the certificate only, and replace that key'
  const blocks = pem.match(/-----BEGIN [^-]+-----/g) ?? []
  if (blocks.length > 1) return 'must be one certificate. Send several as several entries'
  if (!/-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/.test(pem))
    return 'must be a certificate in PEM form'
  try {
    return readAuthority(pem)
  } catch {
    return 'cannot be read as a certificate'
  }
}

function authorityFault(certificate: X509Certificate, now: number): string | undefined {
  if (!certificate.ca)
    return 'is not the certificate of an authority: it does not say CA:TRUE, or may not sign certificates'
  if (certificate.validToDate.getTime() <= now)
    return `cannot be used: it expired on ${certificate.validToDate.toISOString()}`
  if (certificate.validFromDate.getTime() > now)
    return `cannot be used yet: it is not valid before ${certificate.validFromDate.toISOString()}`
  return strengthFault(certificate)
}

function strengthFault(certificate: X509Certificate): string | undefined {
  const isSelfSigned = isIssuedBy(certificate, certificate)
  const { signatureAlgorithm = '' } = certificate
  if (/sha1|md5|md2/i.test(signatureAlgorithm ?? '') && !isSelfSigned)
    return `cannot be used: it is signed with ${signatureAlgorithm}, which is too weak`
  const { asymmetricKeyType, asymmetricKeyDetails: { modulusLength = 0 } = {} } = certificate.publicKey
  const [least = 0] = certificateLimits.rsaBits
  return asymmetricKeyType === 'rsa' && modulusLength < least
    ? `cannot be used: its RSA key has ${modulusLength} bits, and must have at least ${least}`
    : undefined
}

function isRooted(certificate: X509Certificate, all: readonly X509Certificate[]): boolean {
  let reached = [certificate]
  for (let depth = 0; depth <= all.length; depth++) {
    if (reached.some((each) => isIssuedBy(each, each))) return true
    reached = all.filter((issuer) => reached.some((each) => isIssuedBy(each, issuer)))
  }
  return false
}

function isIssuedBy(certificate: X509Certificate, issuer: X509Certificate): boolean {
  try {
    return certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey)
  } catch {
    return false
  }
}
