import type { X509Certificate } from 'node:crypto'
import { type CheckedCertificate, dnsNames, ipNames } from '../../kernel/crypto/certificate.ts'
import { keyUsages } from './key_usages.ts'

/** Fields of a certificate under their API names. */
export type CertificateFacts = {
  subject_common_name: string | null
  subject_alternative_names: { dns_names: string[]; ips: string[] }
  subject_organization: string | null
  subject_organizational_unit: string | null
  subject_locality: string | null
  subject_province: string | null
  subject_country: string | null
  issuer_common_name: string | null
  serial_number: string
  key_usages: string[]
  extended_key_usages: string[]
  private_key_type: 'rsa' | 'ecdsa'
}

export function factsOf({ leaf, keyType }: Pick<CheckedCertificate, 'leaf' | 'keyType'>): CertificateFacts {
  const subject = namesIn(leaf.subject)
  return {
    subject_common_name: subject('CN'),
    subject_alternative_names: { dns_names: dnsNames(leaf), ips: ipNames(leaf) },
    subject_organization: subject('O'),
    subject_organizational_unit: subject('OU'),
    subject_locality: subject('L'),
    subject_province: subject('ST'),
    subject_country: subject('C'),
    issuer_common_name: namesIn(leaf.issuer)('CN'),
    serial_number: leaf.serialNumber.toLowerCase(),
    key_usages: keyUsages(leaf.raw),
    extended_key_usages: extendedUsages(leaf),
    private_key_type: keyType,
  }
}

/** One attribute per line: `CN=example.com`. */
const namesIn = (lines = '') => {
  const found = lines.split('\n').map((line) => line.split(/=(.*)/s, 2))
  return (name: string): string | null => found.find(([known]) => known === name)?.[1]?.slice(0, 255) ?? null
}

const usages: Record<string, string> = {
  '1.3.6.1.5.5.7.3.1': 'server-auth',
  '1.3.6.1.5.5.7.3.2': 'client-auth',
  '1.3.6.1.5.5.7.3.3': 'code-signing',
  '1.3.6.1.5.5.7.3.4': 'email-protection',
  '1.3.6.1.5.5.7.3.8': 'timestamping',
  '1.3.6.1.5.5.7.3.9': 'ocsp-signing',
}
const extendedUsages = ({ keyUsage }: X509Certificate): string[] => (keyUsage ?? []).map((oid) => usages[oid] ?? oid)
