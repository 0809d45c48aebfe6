import type { EdgeRequest } from '../../distribution/requests.ts'
import { count, createTally, type Tally } from './tally.ts'

/** A target without requests for this long is no longer exported and frees its place. */
const idleMs = 60 * 60_000
const sweepMs = 60_000
/** Further accounts share one total. */
const maxAccounts = 10_000
const others = 'other'

/** A route of an HTTPS edge, or a TCP edge, which has no routes. */
export type Target = {
  readonly account: string
  readonly edge: string
  readonly route: string | null
  readonly tally: Tally
  /** The account whose quota it uses. */
  readonly holder: Account
}
type Account = { readonly tally: Tally; targets: number }

/**
 * Counts requests by route, TCP edge and account. At most `most` routes and TCP edges have their own counts, and once
 * half of those places are taken, no account has more than a quarter of them, so an account with many routes cannot
 * displace others. The account's total includes everything. See docs/adr/0054.
 */
export function createTraffic(most: number) {
  const targets = new Map<string, Target>()
  const accounts = new Map<string, Account>()
  let withoutPlace = 0
  let sweptAt = 0

  function accountOf(id: string): Account {
    const known = accounts.get(id)
    if (known) return known
    if (id !== others && accounts.size >= maxAccounts) return accountOf(others)
    const account = { tally: createTally(), targets: 0 }
    accounts.set(id, account)
    return account
  }
  function hasPlace({ targets: held }: Account, now: number): boolean {
    if (targets.size >= most) sweep(now)
    return targets.size < most / 2 || (targets.size < most && held < most / 4)
  }
  function sweep(now: number): void {
    if (now - sweptAt < sweepMs) return
    sweptAt = now
    for (const [key, { holder, tally }] of targets)
      if (now - tally.at > idleMs) {
        targets.delete(key)
        holder.targets--
      }
    for (const [id, { tally, targets: held }] of accounts)
      if (held === 0 && now - tally.at > idleMs) accounts.delete(id)
  }

  return {
    /** Call this for every finished request. Requests of no account appear only in the node's counts. */
    add(request: EdgeRequest, now: number): void {
      const { account: id, edge, route } = request
      if (id === null) return
      const account = accountOf(id)
      count(account.tally, request, now)
      const key = route ?? (request.protocol === 'tcp' ? edge : null)
      if (key === null || edge === null) return
      let target = targets.get(key)
      if (!target) {
        if (!hasPlace(account, now)) {
          withoutPlace++
          return
        }
        account.targets++
        target = { account: id, edge, route, tally: createTally(), holder: account }
        targets.set(key, target)
      }
      count(target.tally, request, now)
    },
    /** The counts for a scrape, without targets that have long been idle. */
    read(now: number) {
      sweep(now)
      const all = [...targets.values()]
      return {
        routes: all.filter(({ route }) => route !== null),
        tcpEdges: all.filter(({ route }) => route === null),
        accounts: [...accounts].map(([account, { tally }]) => ({ account, tally })),
      }
    },
    /** Requests that only the account's total includes. */
    withoutPlace: (): number => withoutPlace,
  }
}
export type Traffic = ReturnType<typeof createTraffic>
