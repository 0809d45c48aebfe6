import { Resolver } from 'node:dns/promises'
import { readFile } from 'node:fs/promises'
import { networkInterfaces } from 'node:os'
import { parseAddress } from '../../kernel/ip/address.ts'

/**
 * `absent`: DNS says that the name has no address. `silent`: DNS does not answer, so earlier answers may still be valid.
 */
export type Answer = { addresses: string[] } | 'absent' | 'silent'
export type LookUp = { lookUp: (name: string) => Promise<Answer>; stop: () => void }

type Options = {
  /** As address:port or address; the system's when empty. */
  servers: readonly string[]
  /** `preferred`, the default, returns only the address family that this machine should dial. */
  families?: 'preferred' | 'all'
  hostsFile?: string
  resolverFile?: string
}

const timeoutMs = 1_500
const tries = 2
/** Upper bound for one name with any number of servers and suffixes, so that no name blocks the others. */
const deadlineMs = 5_000

/**
 * Queries DNS directly instead of through the C library, whose look-ups have no time-out and occupy one of the four
 * threads that also write our files. Reads /etc/hosts and the search list itself; other sources of names, such as mDNS,
 * are not supported.
 */
export async function openDns({
  servers,
  families = 'preferred',
  hostsFile = '/etc/hosts',
  resolverFile = '/etc/resolv.conf',
}: Options): Promise<LookUp> {
  const resolver = new Resolver({ timeout: timeoutMs, tries })
  if (servers.length > 0) resolver.setServers(servers)
  const { search, ndots } = searchList(await readFile(resolverFile, 'utf8').catch(() => ''))

  async function askBoth(name: string): Promise<Answer> {
    const answers = await Promise.all([query(4, name), query(6, name)])
    const addresses = answers.flatMap((answer) => (typeof answer === 'object' ? answer.addresses : []))
    if (addresses.length > 0) return { addresses }
    return answers.includes('silent') ? 'silent' : 'absent'
  }
  async function ask(name: string): Promise<Answer> {
    // Queries both in parallel. The preferred family wins if it answers.
    const [first, second] = hasIPv4() ? [query(4, name), query(6, name)] : [query(6, name), query(4, name)]
    const preferred = await first
    if (typeof preferred === 'object') return preferred
    const other = await second
    if (typeof other === 'object') return other
    return preferred === 'silent' || other === 'silent' ? 'silent' : 'absent'
  }
  async function query(family: 4 | 6, name: string): Promise<Answer> {
    try {
      const addresses = await (family === 4 ? resolver.resolve4(name) : resolver.resolve6(name))
      const usable = addresses.filter((address) => parseAddress(address) !== undefined)
      return usable.length > 0 ? { addresses: usable } : 'absent'
    } catch (error) {
      const { code } = error as { code?: string }
      return code === 'ENOTFOUND' || code === 'ENODATA' ? 'absent' : 'silent'
    }
  }
  const askOne = families === 'all' ? askBoth : ask
  async function askAll(name: string): Promise<Answer> {
    const suffixed = search.map((suffix) => `${name}.${suffix}`)
    const isComplete = name.split('.').length > ndots
    for (const candidate of isComplete ? [name, ...suffixed] : [...suffixed, name]) {
      const answer = await askOne(candidate)
      // Without an answer, the name may exist under this suffix. Trying the next suffix could find another host.
      if (answer !== 'absent') return answer
    }
    return 'absent'
  }

  return {
    async lookUp(name) {
      // Read for each look-up, so that edits take effect without a restart.
      const local = addressesIn(await readFile(hostsFile, 'utf8').catch(() => ''), name)
      if (local.length > 0) return { addresses: local }
      const { promise, resolve } = Promise.withResolvers<Answer>()
      const timer = setTimeout(resolve, deadlineMs, 'silent')
      try {
        return await Promise.race([askAll(name), promise])
      } finally {
        clearTimeout(timer)
      }
    },
    stop: () => resolver.cancel(),
  }
}

/** A machine whose only IPv4 address is loopback reaches upstreams by IPv6 only. */
const hasIPv4 = (): boolean =>
  Object.values(networkInterfaces()).some((all) =>
    all?.some(({ family, internal }) => family === 'IPv4' && !internal),
  ) || !Object.values(networkInterfaces()).some((all) => all?.some(({ internal }) => !internal))

function addressesIn(hosts: string, name: string): string[] {
  const found: string[] = []
  for (const line of hosts.split('\n')) {
    const [address = '', ...names] = line.replace(/#.*/, '').trim().toLowerCase().split(/\s+/)
    if (names.includes(name) && parseAddress(address)) found.push(address)
  }
  // RFC 6761: localhost is this machine, even if DNS disagrees.
  return found.length === 0 && /(^|\.)localhost$/.test(name) ? ['127.0.0.1'] : found.sort(ipv4First)
}
const ipv4First = (a: string, b: string): number => Number(a.includes(':')) - Number(b.includes(':'))

function searchList(text: string): { search: string[]; ndots: number } {
  let search: string[] = []
  let ndots = 1
  for (const line of text.split('\n')) {
    const [keyword, ...values] = line
      .replace(/[#;].*/, '')
      .trim()
      .split(/\s+/)
    if (keyword === 'search' || keyword === 'domain') search = values.filter((each) => each !== '.')
    if (keyword === 'options') ndots = Number(/\bndots:(\d+)/.exec(values.join(' '))?.[1] ?? ndots)
  }
  // The C library's traditional limit.
  return { search: search.slice(0, 6).map((each) => each.replace(/\.$/, '')), ndots }
}
