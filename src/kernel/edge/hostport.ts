import { formatAddress, parseAddress } from '../ip/address.ts'

export type Hostport = { readonly host: string; readonly port: number }

/** Limit per edge. */
export const maxHostports = 100
const maxNameLength = 253
// Test this before lower-casing: U+212A (Kelvin sign) becomes an ordinary k.
const label = /^(?!-)[A-Za-z0-9-]{1,63}(?<!-)$/
/** Numeric forms that URLs and inet_aton accept. */
const number = /^(?:\d+|0x[\da-f]*)$/i

/**
 * DNS rules: labels of letters, digits and inner hyphens, up to 63 characters each and 253 in total. The last label
 * must not be a number, because resolvers would parse the name as an address.
 */
export function isHostName(text: string): boolean {
  const labels = text.split('.')
  return text.length <= maxNameLength && labels.every((part) => label.test(part)) && !number.test(labels.at(-1) ?? '')
}

const shape = /^(?:\[([^\]]*)\]|([^:[\]]*)):([1-9]\d{0,4})$/

/** The parts of a host:port, with a canonical host; or the fault, which completes the sentence '<field> …'. */
export function parseHostport(text: string, { wildcard = false } = {}): Hostport | string {
  const [, bracketed, plain, port] = shape.exec(text) ?? []
  const portNumber = Number(port)
  if (port === undefined || portNumber > 65_535) return 'must be host:port, with a port from 1 to 65535'
  if (bracketed !== undefined) {
    const address = parseAddress(bracketed)
    return address?.family === 6
      ? { host: `[${formatAddress(address)}]`, port: portNumber }
      : 'must have an IPv6 address inside the brackets'
  }
  const host = plain ?? ''
  const address = parseAddress(host)
  if (address) return { host: formatAddress(address), port: portNumber }
  const name = wildcard && host.startsWith('*.') ? host.slice(2) : host
  return isHostName(name) && host.length <= maxNameLength
    ? { host: host.toLowerCase(), port: portNumber }
    : 'must have a valid DNS host name or an IP address'
}

export const formatHostport = ({ host, port }: Hostport): string => `${host}:${port}`

export type HostportRules = { wildcard?: boolean; nameOnly?: boolean; port?: number }

/** Completes the sentence '<field> …'; undefined for a hostport that these rules allow. */
export function hostportFault(text: string, { wildcard, nameOnly, port }: HostportRules): string | undefined {
  const parsed = parseHostport(text, { wildcard })
  if (typeof parsed === 'string') return parsed
  if (nameOnly && parseAddress(parsed.host.replaceAll(/[[\]]/g, ''))) return 'must have a host name, not an IP address'
  if (port !== undefined && parsed.port !== port) return `must use port ${port}`
  return undefined
}

export function isCanonicalHostport(text: string, rules?: { wildcard: boolean }): boolean {
  const parsed = parseHostport(text, rules)
  return typeof parsed !== 'string' && formatHostport(parsed) === text
}

/** Canonical spelling of validated text. */
export function canonicalHostport(text: string): string {
  const parsed = parseHostport(text, { wildcard: true })
  if (typeof parsed === 'string') throw new Error(`a hostport that was checked before ${parsed}: ${text}`)
  return formatHostport(parsed)
}
