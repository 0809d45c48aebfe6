import { BlockList, isIPv6 } from 'node:net'

/**
 * What the list must say, found the long way: everything that decides is kept after every step, each address is tried
 * against all of it, and Node's own BlockList matches. It shares no code with the service.
 */
export type OracleRule = { cidr: string; action: 'allow' | 'deny'; expired: boolean }
export type State = {
  policies: Map<string, OracleRule[]>
  restrictions: Map<string, { type: string; enforced: boolean; policies: string[] }>
  module: string[] | undefined
}
/** Where an address comes to: a type of traffic. */
export type Place = 'api' | 'endpoints'

const family = (ip: string) => (isIPv6(ip) ? 'ipv6' : 'ipv4')

function contains(cidr: string, ip: string): boolean {
  const [network = '', length = ''] = cidr.split('/')
  // It takes ::/0 for IPv4 addresses as well.
  if (family(network) !== family(ip)) return false
  const list = new BlockList()
  list.addSubnet(network, Number(length), family(network))
  return list.check(ip, family(ip))
}

export function isRefused({ policies, restrictions, module }: State, place: Place, ip: string): boolean {
  const sets = [...restrictions.values()].filter((each) => each.type === place && each.enforced)
  const all = [...sets.map((each) => each.policies), ...(place === 'endpoints' && module ? [module] : [])]
  return all.some((ids) => {
    const matching = ids
      .flatMap((id) => policies.get(id) ?? [])
      .filter(({ cidr, expired }) => !expired && contains(cidr, ip))
    return matching.length === 0 || matching.some(({ action }) => action === 'deny')
  })
}

/** A change by its operation id, or the end of a rule's time, and what was decided before and after it. */
export type Step = { cause: string; before: Map<string, boolean>; after: Map<string, boolean> }
export type Traffic = { subject: string; refused: boolean }
export const subjectOf = (place: Place, ip: string) => `${place} ${ip}`

/** The present refusal's first step, by subject, for those that the list must have. */
export function expectedList(steps: readonly Step[], traffic: readonly Traffic[]): Map<string, string> {
  const expected = new Map<string, string>()
  for (const subject of new Set(traffic.map((each) => each.subject))) {
    const own = traffic.filter((each) => each.subject === subject)
    const lastAllowed = own.findLastIndex(({ refused }) => !refused)
    if (lastAllowed < 0 || lastAllowed === own.length - 1) continue
    if (steps.at(-1)?.after.get(subject) !== true) continue
    const began = steps.findLast(({ before }) => before.get(subject) === false)
    expected.set(subject, began?.cause ?? 'unknown')
  }
  return expected
}
