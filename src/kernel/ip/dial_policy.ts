import { type Address, formatAddress, type IPv6Address, parseAddress } from './address.ts'
import { parseCidr } from './cidr.ts'
import { type CompiledPolicy, compilePolicy, lookup } from './ranges.ts'

/** Ports on which this machine listens, on any address. */
export type OwnPorts = readonly { readonly first: number; readonly last: number }[]

/** A machine of the installation, and its service ports. */
export type Service = { readonly address: string; readonly ports: readonly number[] }

type Options = {
  deny: CompiledPolicy
  allow: CompiledPolicy
  ownPorts: OwnPorts
  /** Current addresses of this machine. */
  ownAddresses: () => string[]
  /** Current machines of the control plane. */
  services?: () => readonly Service[]
  /** Whether private networks are denied by default too. */
  deniesPrivate: boolean
  /** Names of this machine and its operator in faults: 'edge node', 'the operator of the edge'. */
  words: { self: string; operator: string }
}

/** Completes the sentence 'the address …'. Shown to tenants, so it names only addresses that they entered. */
type Fault = string

/**
 * Which addresses tenants may have us dial. Checked on the resolved address that is then dialed, so that a name cannot
 * resolve differently in between.
 *
 * In order: the machine's own listeners and the control plane's service ports are never allowed; then the operator's
 * denials; the operator's allowances; the default denials; all else is allowed.
 */
export function createDialPolicy(options: Options) {
  const { deny, allow, ownPorts, ownAddresses, services = () => [], deniesPrivate, words } = options
  let own = new Set<string>()
  let servicePorts = new Map<string, readonly number[]>()
  let refreshed = ''
  const isHere = (text: string) => own.has(text) || isThisMachine(parseAddress(text))
  /**
   * Without a free file descriptor the system cannot be asked, so the last known addresses stay. At the start a failure
   * is fatal.
   */
  const readOwn = (): Set<string> => {
    try {
      return new Set(ownAddresses().map(canonical).sort())
    } catch (error) {
      if (refreshed === '') throw error
      return own
    }
  }
  const refresh = (): boolean => {
    own = readOwn()
    const byAddress = Map.groupBy(services(), ({ address }) => canonical(address))
    servicePorts = new Map([...byAddress].map(([address, all]) => [address, all.flatMap(({ ports }) => ports)]))
    const before = refreshed
    refreshed = JSON.stringify([[...own], [...servicePorts].sort()])
    return refreshed !== before
  }
  refresh()

  function isServicePort(address: string, port: number): boolean {
    if (servicePorts.get(address)?.includes(port)) return true
    // A service that runs on this machine may listen on all of its addresses.
    return isHere(address) && servicePorts.entries().some(([at, ports]) => isHere(at) && ports.includes(port))
  }

  function faultOf(address: Address, port: number): Fault | undefined {
    const text = formatAddress(address)
    const isOwn = own.has(text)
    if (isHere(text) && ownPorts.some(({ first, last }) => port >= first && port <= last))
      return `is this ${words.self} itself`
    if (isServicePort(text, port)) return 'is a service of the control plane'
    if (lookup(deny, address)) return `is in a network that ${words.operator} denies`
    if (lookup(allow, address)) return undefined
    if (isOwn) return `is an address of this ${words.self}`
    const found = lookup(deniedByDefault, address)
    if (found) return defaults[found.rule]?.reason
    if (servicePorts.has(text)) return 'is a host of the control plane'
    return deniesPrivate && lookup(privateNetworks, address) ? 'is in a private network' : undefined
  }

  return {
    /** Undefined if the address may be dialed. */
    fault(text: string, port: number): Fault | undefined {
      const address = parseAddress(text)
      if (!address) return 'is not an address'
      for (const each of [address, ...embedded(address)]) {
        const fault = faultOf(each, port)
        if (fault) return fault
      }
      return undefined
    },
    /**
     * Re-reads the addresses of this machine and of the control plane. True if they changed; every upstream must then
     * be checked again.
     */
    refresh,
  }
}
export type DialPolicy = ReturnType<typeof createDialPolicy>

const networks = (texts: readonly string[]) => texts.map(networkOf)
function networkOf(text: string) {
  const { cidr, fault } = parseCidr(text)
  if (!cidr) throw new Error(`${text} ${fault}`)
  return cidr
}
const compiled = (texts: readonly string[]) => compilePolicy(networks(texts).map((cidr) => ({ cidr, action: 'allow' })))

/** Linux routes connections to an unspecified address or 127.0.0.0/8 to itself. */
const thisMachine = compiled(['127.0.0.0/8', '0.0.0.0/8', '::1/128', '::/128'])

const defaults = [
  { reason: 'is a loopback address', ranges: ['127.0.0.0/8', '::1/128'] },
  { reason: 'is an unspecified address', ranges: ['0.0.0.0/8', '::/128'] },
  { reason: 'is a link-local address', ranges: ['169.254.0.0/16', 'fe80::/10'] },
  { reason: 'is a multicast address', ranges: ['224.0.0.0/4', 'ff00::/8'] },
  { reason: 'is a reserved or broadcast address', ranges: ['240.0.0.0/4'] },
  {
    // Metadata services of AWS, Google Cloud, Alibaba Cloud and Azure that are not link-local.
    reason: 'is a metadata service',
    ranges: ['fd00:ec2::254/128', 'fd20:ce::254/128', '100.100.100.200/32', '168.63.129.16/32'],
  },
].flatMap(({ reason, ranges }) => networks(ranges).map((cidr) => ({ reason, cidr })))
const deniedByDefault = compilePolicy(defaults.map(({ cidr }) => ({ cidr, action: 'deny' })))

/** RFC 1918, 4193 and 6598, and ranges reserved for protocols, benchmarks and documentation. */
const privateNetworks = compiled([
  ...['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '100.64.0.0/10', '192.0.0.0/24', '198.18.0.0/15'],
  ...['192.0.2.0/24', '198.51.100.0/24', '203.0.113.0/24', 'fc00::/7', 'fec0::/10', '2001:db8::/32'],
])

export const isThisMachine = (address: Address | undefined): boolean =>
  address !== undefined && lookup(thisMachine, address) !== undefined

const canonical = (text: string): string => {
  const address = parseAddress(text)
  return address ? formatAddress(address) : text
}

/**
 * IPv4 addresses that translators and tunnels would dial for an IPv6 address: NAT64 (RFC 6052), 6to4 (RFC 3056), Teredo
 * (RFC 4380) and IPv4-compatible ones. Mapped addresses are already IPv4.
 */
function embedded(address: Address): Address[] {
  if (address.family === 4) return []
  const { w0, w1, w2, w3 }: IPv6Address = address
  const v4 = (value: number): Address => ({ family: 4, value: value >>> 0 })
  if (w0 === 0x0064ff9b && w1 === 0 && w2 === 0) return [v4(w3)]
  // The local-use prefix does not fix the position of the IPv4 address.
  if (w0 === 0x0064ff9b && w1 >>> 16 === 1)
    return [v4(w3), v4((w1 << 16) | ((w2 >>> 8) & 0xffff)), v4((w2 << 8) | (w3 >>> 24))]
  if (w0 >>> 16 === 0x2002) return [v4((w0 << 16) | (w1 >>> 16))]
  if (w0 === 0x20010000) return [v4(w1), v4(~w3)]
  return w0 === 0 && w1 === 0 && w2 === 0 && w3 > 1 ? [v4(w3)] : []
}
