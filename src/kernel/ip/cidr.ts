import { type Address, formatAddress, isIPv4Mapped, parseIPv4, parseIPv6 } from './address.ts'

/** `network` has no bits set beyond `prefixLength`: parseCidr guarantees it, and the policy compiler relies on it. */
export type Cidr = { readonly network: Address; readonly prefixLength: number }

/** `fault` completes the sentence 'cidr …'. */
export type CidrResult = { cidr: Cidr; fault?: undefined } | { cidr?: undefined; fault: string }

export function parseCidr(text: string): CidrResult {
  const slash = text.indexOf('/')
  const addressText = slash < 0 ? text : text.slice(0, slash)
  const written = addressText.includes(':') ? parseIPv6(addressText) : parseIPv4(addressText)
  if (!written) return { fault: 'must be an IPv4 or IPv6 address or CIDR range, such as 203.0.113.0/24' }

  const longest = addressLength(written)
  const writtenLength = slash < 0 ? longest : parsePrefixLength(text.slice(slash + 1), longest)
  if (writtenLength === undefined) {
    return { fault: `must have a prefix length from 0 to ${longest}, in decimal without leading zeros` }
  }

  // A shorter prefix includes more than the mapped addresses, so it is an IPv6 range and matches no IPv4 address.
  const isMappedRange = written.family === 6 && isIPv4Mapped(written) && writtenLength >= 96
  const address: Address = isMappedRange ? { family: 4, value: written.w3 } : written
  const prefixLength = isMappedRange ? writtenLength - 96 : writtenLength

  const cidr = cidrAround(address, prefixLength)
  if (!isSameAddress(cidr.network, address)) {
    return { fault: `has host bits set; did you mean ${formatCidr(cidr)}` }
  }
  return { cidr }
}

/** Canonical, always with the prefix length. */
export function formatCidr({ network, prefixLength }: Cidr): string {
  return `${formatAddress(network)}/${prefixLength}`
}

/**
 * Like `formatCidr`, for a range parsed from `text`. For IPv4, `parseCidr` accepts only the canonical spelling, with or
 * without the length.
 */
export function spelledCidr(text: string, cidr: Cidr): string {
  if (text.includes(':')) return formatCidr(cidr)
  return text.includes('/') ? text : `${text}/32`
}

/** The range of this length that contains the address. */
export const cidrAround = (address: Address, prefixLength: number): Cidr => ({
  network: networkOf(address, prefixLength),
  prefixLength,
})

export const isWithin = ({ network, prefixLength }: Cidr, address: Address): boolean =>
  isSameAddress(networkOf(address, prefixLength), network)

export const containsCidr = (outer: Cidr, inner: Cidr): boolean =>
  outer.prefixLength <= inner.prefixLength && isWithin(outer, inner.network)

/** The last address of a range, as a range. */
export function lastAddressOf({ network, prefixLength }: Cidr): Cidr {
  const last = (word: number, index: number) => (word | ~maskOfWord(prefixLength, index)) >>> 0
  if (network.family === 4) return { network: { family: 4, value: last(network.value, 0) }, prefixLength: 32 }
  const { w0, w1, w2, w3 } = network
  return {
    network: { family: 6, w0: last(w0, 0), w1: last(w1, 1), w2: last(w2, 2), w3: last(w3, 3) },
    prefixLength: 128,
  }
}

/** All ranges that contain the address, from the whole family to the address alone. */
export const rangesAround = (address: Address): Cidr[] =>
  Array.from({ length: addressLength(address) + 1 }, (_, prefixLength) => cidrAround(address, prefixLength))

/** The bits of the 32-bit word number `index` that a prefix covers. */
export function maskOfWord(prefixLength: number, index: number): number {
  const bits = prefixLength - 32 * index
  if (bits <= 0) return 0
  return bits >= 32 ? 0xffffffff : (0xffffffff << (32 - bits)) >>> 0
}

const addressLength = ({ family }: Address): number => (family === 4 ? 32 : 128)

function parsePrefixLength(text: string, longest: number): number | undefined {
  if (!/^(0|[1-9][0-9]{0,2})$/.test(text)) return undefined
  const length = Number(text)
  return length <= longest ? length : undefined
}

function networkOf(address: Address, prefixLength: number): Address {
  const masked = (word: number, index: number) => (word & maskOfWord(prefixLength, index)) >>> 0
  if (address.family === 4) return { family: 4, value: masked(address.value, 0) }
  const { w0, w1, w2, w3 } = address
  return { family: 6, w0: masked(w0, 0), w1: masked(w1, 1), w2: masked(w2, 2), w3: masked(w3, 3) }
}

function isSameAddress(a: Address, b: Address): boolean {
  if (a.family === 4) return b.family === 4 && a.value === b.value
  return b.family === 6 && a.w0 === b.w0 && a.w1 === b.w1 && a.w2 === b.w2 && a.w3 === b.w3
}
