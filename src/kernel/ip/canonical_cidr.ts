import { formatCidr, parseCidr } from './cidr.ts'

/**
 * The one spelling of a range. For text that the schema has passed, and for what PostgreSQL returns: it writes some
 * IPv6 ranges with a dotted tail, which RFC 5952 and we do not.
 */
export function canonicalCidr(text: string): string {
  const { cidr, fault } = parseCidr(text)
  if (fault !== undefined) throw new Error(`a range that was checked before ${fault}: ${text}`)
  return formatCidr(cidr)
}
