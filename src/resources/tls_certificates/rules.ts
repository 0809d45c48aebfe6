import {
  CertificateFault,
  type CheckedCertificate,
  checkCertificate,
  dnsNames,
  servedNames,
} from '../../kernel/crypto/certificate.ts'
import { invalidField } from '../../kernel/errors.ts'

export function checked(chain: string, key: string, now: number): CheckedCertificate {
  try {
    return checkCertificate(chain, key, now)
  } catch (error) {
    // Omits the cause: OpenSSL's messages may repeat the input.
    if (error instanceof CertificateFault) throw invalidField(error.field, error.message)
    throw error
  }
}

/** A replacement must cover all domains that use the certificate; otherwise they could not be served. */
export function checkCovers({ leaf }: CheckedCertificate, domains: readonly string[]): void {
  const names = dnsNames(leaf)
  const uncovered = domains.filter((domain) => servedNames(names, [domain], []).names.length === 0)
  if (uncovered.length === 0) return
  const more = uncovered.length > 3 ? ` and ${uncovered.length - 3} more` : ''
  throw invalidField(
    'certificate_pem',
    `must be for the domains that use this certificate: it has no name of ${uncovered.slice(0, 3).join(', ')}${more}. Upload it as another certificate, or give those domains another one first`,
  )
}

/** A PATCH replaces both or neither. */
export function checkBoth({
  certificate_pem,
  private_key_pem,
}: {
  certificate_pem?: string
  private_key_pem?: string
}) {
  if (certificate_pem !== undefined && private_key_pem === undefined)
    throw invalidField('private_key_pem', 'is required together with certificate_pem')
  if (private_key_pem !== undefined && certificate_pem === undefined)
    throw invalidField('certificate_pem', 'is required together with private_key_pem')
}
