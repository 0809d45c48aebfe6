import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto'

/** Their sum fits into one command on HAProxy's runtime socket. */
export const certificateLimits = { chainBytes: 16_384, keyBytes: 7_168, certificates: 10, rsaBits: [2_048, 4_096] }
/** Names served with one certificate, and as many exceptions: one line of each must fit into one command. */
export const maxCertificateNames = 500
const curves = new Map([
  ['prime256v1', 'P-256'],
  ['secp384r1', 'P-384'],
  ['secp521r1', 'P-521'],
])

export type CertificateField = 'certificate_pem' | 'private_key_pem'
/** Completes '<field> …'. Never repeats the input, which may be a private key in the wrong field. */
export class CertificateFault extends Error {
  readonly field: CertificateField
  constructor(field: CertificateField, fault: string) {
    super(fault)
    this.field = field
  }
}

export type CheckedCertificate = {
  /** Canonical: nothing but the certificates. */
  readonly chain: string
  /** PKCS #8. */
  readonly key: string
  readonly leaf: X509Certificate
  readonly keyType: 'rsa' | 'ecdsa'
}

/**
 * Checks everything that would make a node refuse the certificate, or a client distrust it without contacting an
 * authority.
 */
export function checkCertificate(chainText: string, keyText: string, now: number): CheckedCertificate {
  const chain = readChain(chainText)
  const leaf = chain[0] as X509Certificate
  for (const [index, certificate] of chain.entries()) {
    checkValidity(certificate, index, now)
    const issuer = chain[index + 1]
    if (issuer && !(certificate.checkIssued(issuer) && isSignedBy(certificate, issuer)))
      throw chainFault(
        `has its certificates in the wrong order, or one that does not belong there: number ${index + 2} did not issue number ${index + 1}. Put the server's certificate first and each issuer after what it issued`,
      )
  }
  if (dnsNames(leaf).length === 0)
    throw chainFault('has no DNS name among its subject alternative names, so no client would accept it')
  if (leaf.ca && chain.length > 1)
    throw chainFault("begins with the certificate of an authority. Put the server's certificate first")
  const key = readKey(keyText)
  if (!leaf.checkPrivateKey(key)) throw keyFault('does not belong to the first certificate of certificate_pem')
  return {
    chain: chain
      .map((certificate) => certificate.toString().trimEnd())
      .join('\n')
      .concat('\n'),
    key: key.export({ type: 'pkcs8', format: 'pem' }) as string,
    leaf,
    keyType: checkStrength(key),
  }
}

/** In lower case, wildcards included. */
export const dnsNames = (certificate: X509Certificate): string[] => alternativeNames(certificate, 'DNS')
export const ipNames = (certificate: X509Certificate): string[] => alternativeNames(certificate, 'IP Address')

/** Whether a certificate with these names is valid for a name, or for all names under a wildcard. */
export function coversName(names: readonly string[], name: string): boolean {
  const parent = name.slice(name.indexOf('.') + 1)
  return names.includes(name) || (!name.startsWith('*.') && parent.includes('.') && names.includes(`*.${parent}`))
}

/**
 * Names that the certificate is served for: those that its account holds, and a held domain that one of its wildcards
 * covers. Excludes names under domains of other accounts.
 */
export function servedNames(
  dnsNames: readonly string[],
  domains: readonly string[],
  others: readonly string[],
): { names: string[]; except: string[] } {
  const isUnder = (name: string, domain: string) => name === domain || name.endsWith(`.${domain}`)
  const own = dnsNames.filter((name) => domains.some((domain) => isUnder(name, domain)))
  const covered = domains.filter((domain) => coversName(dnsNames, domain))
  const names = [...new Set([...own, ...covered])].filter((name) => !others.some((other) => isUnder(name, other)))
  const except = others.filter((other) => names.includes(`*.${other.slice(other.indexOf('.') + 1)}`))
  return {
    names: names.sort().slice(0, maxCertificateNames),
    except: [...new Set(except)].slice(0, maxCertificateNames),
  }
}

const chainFault = (fault: string) => new CertificateFault('certificate_pem', fault)
const keyFault = (fault: string) => new CertificateFault('private_key_pem', fault)

function readChain(text: string): X509Certificate[] {
  if (/PRIVATE KEY/.test(text)) throw chainFault('contains a private key. Send that as private_key_pem only')
  const blocks = text.match(/-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g) ?? []
  if (blocks.length === 0) throw chainFault('must be one or more certificates in PEM form')
  if (blocks.length > certificateLimits.certificates)
    throw chainFault(`must have at most ${certificateLimits.certificates} certificates`)
  return blocks.map((block, index) => {
    try {
      return new X509Certificate(block)
    } catch {
      throw chainFault(`cannot be read: number ${index + 1} is not a certificate`)
    }
  })
}

function checkValidity(certificate: X509Certificate, index: number, now: number): void {
  const which = index === 0 ? 'its first certificate' : `certificate number ${index + 1}`
  if (certificate.validToDate.getTime() <= now)
    throw chainFault(`cannot be used: ${which} expired on ${certificate.validToDate.toISOString()}`)
  if (certificate.validFromDate.getTime() > now)
    throw chainFault(`cannot be used yet: ${which} is not valid before ${certificate.validFromDate.toISOString()}`)
  if (/sha1|md5|md2/i.test(certificate.signatureAlgorithm ?? '') && !isSignedBy(certificate, certificate))
    throw chainFault(`cannot be used: ${which} is signed with ${certificate.signatureAlgorithm}, which clients refuse`)
}

function isSignedBy(certificate: X509Certificate, issuer: X509Certificate): boolean {
  try {
    return certificate.verify(issuer.publicKey)
  } catch {
    return false
  }
}

function readKey(text: string): KeyObject {
  if (/BEGIN CERTIFICATE/.test(text)) throw keyFault('contains a certificate. Send that as certificate_pem only')
  if (/ENCRYPTED/.test(text)) throw keyFault('is encrypted with a passphrase. Send it without one')
  try {
    return createPrivateKey(text)
  } catch {
    throw keyFault('must be an unencrypted private key in PEM form')
  }
}

function checkStrength(key: KeyObject): 'rsa' | 'ecdsa' {
  const { modulusLength = 0, namedCurve = '' } = key.asymmetricKeyDetails ?? {}
  const [least = 0, most = 0] = certificateLimits.rsaBits
  if (key.asymmetricKeyType === 'rsa' && modulusLength >= least && modulusLength <= most) return 'rsa'
  if (key.asymmetricKeyType === 'ec' && curves.has(namedCurve)) return 'ecdsa'
  throw keyFault(
    `must be an RSA key of ${least} to ${most} bits, or one on the curve ${[...curves.values()].join(', ')}`,
  )
}

/** Parses Node's format: `DNS:a.example, IP Address:192.0.2.1`. Ignores names with commas, which are quoted. */
function alternativeNames({ subjectAltName = '' }: X509Certificate, kind: string): string[] {
  const found = (subjectAltName ?? '').split(', ').filter((name) => name.startsWith(`${kind}:`))
  return [...new Set(found.map((name) => name.slice(kind.length + 1).toLowerCase()))]
}
