import { type Cidr, formatCidr, parseCidr } from './cidr.ts'

/**
 * The one spelling of a range. For text that the schema has passed, and for what PostgreSQL returns: it writes some
 * IPv6 ranges with a dotted tail, which RFC 5952 and we do not.
 */
export const canonicalCidr = (text: string): string => formatCidr(checkedCidr(text))

/** The range that such a text means. */
export function checkedCidr(text: string): Cidr {
  const { cidr, fault } = parseCidr(text)
  if (fault !== undefined) throw new Error(`a range that was checked before ${fault}: ${text}`)
  return cidr
}
