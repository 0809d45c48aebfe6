import type { EdgeRequest } from '../../distribution/requests.ts'
import { matcherOf, readWatches, type Watch, watchLeaseMs } from '../../distribution/watches.ts'

const maxProcesses = 100

export type Watching = Watch & { matches: (request: EdgeRequest) => boolean; seen: number; dropped: number }
type Lease = { expiresAt: number; watches: Watching[] }

/** The watches of control plane processes. A process that stops renewing them loses them. */
export function createLeases() {
  const leases = new Map<string, Lease>()
  let byAccount = new Map<string, Watching[]>()

  function index(): void {
    byAccount = Map.groupBy(
      [...leases.values()].flatMap(({ watches }) => watches),
      ({ account }) => account,
    )
  }
  function expire(now: number): void {
    const before = leases.size
    for (const [process, { expiresAt }] of leases) if (expiresAt <= now) leases.delete(process)
    if (leases.size !== before) index()
  }
  return {
    expire,
    renew(text: string, now: number): void {
      const read = readWatches(text)
      if (!read) return
      expire(now)
      const known = new Map(leases.get(read.process)?.watches.map((watch) => [watch.id, watch]))
      leases.delete(read.process)
      const watches = read.watches.map(
        (watch) => known.get(watch.id) ?? { ...watch, matches: matcherOf(watch), seen: 0, dropped: 0 },
      )
      if (watches.length > 0 && leases.size < maxProcesses)
        leases.set(read.process, { expiresAt: now + watchLeaseMs, watches })
      index()
    },
    isEmpty: (): boolean => leases.size === 0,
    of: (account: string): readonly Watching[] => byAccount.get(account) ?? [],
    all: (): Watching[] => [...byAccount.values()].flat(),
  }
}
