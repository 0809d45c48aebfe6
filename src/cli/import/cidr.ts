import { parseAddress } from '../../kernel/ip/address.ts'
import { cidrAround, formatCidr, parseCidr } from '../../kernel/ip/cidr.ts'

/** The vendor ignores bits beyond the prefix length; Gatehouse refuses them. */
export function cidrOf(value: unknown): string | undefined {
  const text = String(value)
  const { cidr } = parseCidr(text)
  if (cidr) return formatCidr(cidr)
  const [, written = '', length = ''] = /^(.+)\/(\d{1,3})$/.exec(text) ?? []
  const address = parseAddress(written)
  const longest = written.includes(':') ? 128 : 32
  return address && address.family === (longest === 32 ? 4 : 6) && Number(length) <= longest
    ? formatCidr(cidrAround(address, Number(length)))
    : undefined
}
