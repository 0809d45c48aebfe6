import { parseAddress } from '../kernel/ip/address.ts'
import { type DialPolicy, isThisMachine } from '../kernel/ip/dial_policy.ts'

/** Completes the sentence 'url …'. Resolved addresses are checked with each delivery. */
export function urlFault(text: string, policy: DialPolicy): string | undefined {
  const url = URL.parse(text)
  if (!url || !/^https?:\/\//i.test(text)) return 'must be a URL that begins with https://'
  if (url.username || url.password) return 'must not contain a user name or password'
  if (url.hash) return 'must not contain a fragment'
  const address = addressOf(url)
  const fault = address === undefined ? undefined : policy.fault(address, portOf(url))
  if (fault) return `must not lead to an address that ${fault}`
  // Without TLS everything is readable on the way, including signatures, so http is for loopback only.
  if (url.protocol === 'http:' && !isLoopbackName(url)) return 'must begin with https://'
  return undefined
}

/** The address, if the URL contains one instead of a name. */
export const addressOf = ({ hostname }: URL): string | undefined => {
  const text = hostname.replace(/^\[|\]$/g, '')
  return parseAddress(text) ? text : undefined
}

export const portOf = ({ port, protocol }: URL): number => Number(port) || (protocol === 'https:' ? 443 : 80)

function isLoopbackName(url: URL): boolean {
  const address = addressOf(url)
  const parsed = address === undefined ? undefined : parseAddress(address)
  return parsed ? isThisMachine(parsed) : false
}
