import type { Report } from '../../distribution/channels.ts'
import type { Clock } from '../../kernel/clock.ts'

const slotMs = 1_000
/** Counts that arrive later than this are about another time than now. */
const lateMs = 90_000
const keptForMs = 30 * 60_000
/** Nodes × routes × slots: about 100 MB. */
const maxKept = 300_000

export type Recent = {
  readonly node: string
  /** Null for requests for which the edge had no route, and for what a node had no room for. */
  readonly edge: string | null
  readonly route: string | null
  /** When they arrived. */
  readonly at: number
  /** In the order of `trafficFigures`, with those of `judgedFigures` behind them. */
  readonly counts: number[]
}
/** `counts` by cell and account. */
type Slot = { at: number; size: number; counts: Map<string, Map<string, Recent>> }

/**
 * What nodes have counted lately, by node and by route or TCP edge, as soon as it arrives: for decisions about changes that
 * are under way. Only the process that publishes to the cell has it, and only since it does.
 */
export function createRecentTraffic(clock: Clock, most = maxKept) {
  const slots: Slot[] = []
  const batches = new Map<string, { sender: string; batch: number }>()
  /** When each node's first report came, by cell and node. */
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
    /** What nodes of the cell have counted of the account within the last half hour. What is not there is unknown. */
    ofAccount: (cell: string, account: string): Recent[] =>
      slots.flatMap(({ counts }) => [...(counts.get(`${cell} ${account}`)?.values() ?? [])]),
    /** From when on counts of the node come in here. Undefined for one that does not count. */
    heardSince: (cell: string, node: string): number | undefined => since.get(`${cell} ${node}`),
  }
}
export type RecentTraffic = ReturnType<typeof createRecentTraffic>
