import { type Cidr, formatCidr, parseCidr } from './cidr.ts'

/**
 * Canonical spelling of a range, for validated text and for output of PostgreSQL, which writes some IPv6 ranges with a
 * dotted tail, unlike RFC 5952.
 */
export const canonicalCidr = (text: string): string => formatCidr(checkedCidr(text))

export function checkedCidr(text: string): Cidr {
  const { cidr, fault } = parseCidr(text)
  if (fault !== undefined) throw new Error(`a range that was checked before ${fault}: ${text}`)
  return cidr
}
