import type { Report } from '../../distribution/channels.ts'
import type { Clock } from '../../kernel/clock.ts'

const slotMs = 1_000
/** Counts that arrive later than this do not describe the present. */
const lateMs = 90_000
const keptForMs = 30 * 60_000
/** Nodes × routes × slots: about 100 MB. */
const maxKept = 300_000

export type Recent = {
  readonly node: string
  /** Null for requests without a route, and for counts that a node had no room for. */
  readonly edge: string | null
  readonly route: string | null
  readonly at: number
  /** In the order of `trafficFigures`, followed by those of `judgedFigures`. */
  readonly counts: number[]
}
/** `counts` is keyed by cell and account. */
type Slot = { at: number; size: number; counts: Map<string, Map<string, Recent>> }

/**
 * Recent counts by node and by route or TCP edge, available on arrival for decisions about rollouts. Only the cell's
 * publisher process has them, and only since it took over.
 */
export function createRecentTraffic(clock: Clock, most = maxKept) {
  const slots: Slot[] = []
  const batches = new Map<string, { sender: string; batch: number }>()
  /** Arrival of each node's first report, by cell and node. */
  const since = new Map<string, number>()
  let size = 0

  function dropOldest(): void {
    size -= slots.shift()?.size ?? 0
  }
  function slotOf(now: number): Slot {
    const at = now - (now % slotMs)
    while (slots[0] && slots[0].at < now - keptForMs) dropOldest()
    const last = slots.at(-1)
    if (last?.at === at) return last
    const slot: Slot = { at, size: 0, counts: new Map() }
    slots.push(slot)
    return slot
  }
  function add({ node, countsTraffic, traffic }: Report, cell: string): void {
    const now = clock()
    const name = `${cell} ${node}`
    if (!countsTraffic) since.delete(name)
    else if (!since.has(name)) since.set(name, now)
    if (!traffic) return
    const before = batches.get(name)
    if (before?.sender === traffic.sender && before.batch >= traffic.batch) return
    batches.set(name, { sender: traffic.sender, batch: traffic.batch })
    const slot = slotOf(now)
    for (const { account, edge, route, minute, judged = [], ...each } of traffic.counts) {
      if (minute + 60_000 < now - lateMs) continue
      const counts = [...each.counts, ...judged]
      const owner = `${cell} ${account}`
      const own = slot.counts.get(owner) ?? new Map<string, Recent>()
      slot.counts.set(owner, own)
      const key = `${node} ${route ?? edge}`
      const sum = own.get(key)
      if (sum) for (const [index, count] of counts.entries()) sum.counts[index] = (sum.counts[index] ?? 0) + count
      else {
        own.set(key, { node, edge, route, at: slot.at, counts })
        slot.size++
        size++
      }
    }
    while (size > most && slots.length > 1) dropOldest()
  }

  return {
    add,
    /** Counts of the account by nodes of the cell within the last half hour. A missing count is unknown, not zero. */
    ofAccount: (cell: string, account: string): Recent[] =>
      slots.flatMap(({ counts }) => [...(counts.get(`${cell} ${account}`)?.values() ?? [])]),
    /** The time since which this process receives the node's counts. Undefined if the node does not count. */
    heardSince: (cell: string, node: string): number | undefined => since.get(`${cell} ${node}`),
  }
}
export type RecentTraffic = ReturnType<typeof createRecentTraffic>
