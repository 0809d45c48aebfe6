import type { Report } from '../../distribution/channels.ts'
import type { Clock } from '../../kernel/clock.ts'
import { noTraffic } from '../../kernel/edge/traffic.ts'

const slotMs = 5_000
/** Counts that arrive later than this are about another time than now. */
const lateMs = 90_000
const keptForMs = 30 * 60_000
/** Nodes × routes × slots: about 100 MB. */
const maxKept = 300_000

/** `slot`: when they arrived. */
type Slot = { slot: number; counts: Map<string, { node: string; target: string; counts: number[] }> }

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
  /** What came before is forgotten. */
  let forgottenUntil = 0

  function dropOldest(): void {
    const dropped = slots.shift()
    size -= dropped?.counts.size ?? 0
    forgottenUntil = (dropped?.slot ?? 0) + slotMs
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
    const slot = now - (now % slotMs)
    while (slots[0] && slots[0].slot < now - keptForMs) dropOldest()
    const last = slots.at(-1)
    const current: Slot = last?.slot === slot ? last : { slot, counts: new Map() }
    if (current !== last) slots.push(current)
    for (const { edge, route, minute, counts } of traffic.counts) {
      const target = route ?? edge
      if (target === null || minute + 60_000 < now - lateMs) continue
      const key = `${name} ${target}`
      const sum = current.counts.get(key)
      if (sum) for (const [index, count] of counts.entries()) sum.counts[index] = (sum.counts[index] ?? 0) + count
      else {
        current.counts.set(key, { node, target, counts: [...counts] })
        size++
      }
    }
    while (size > most && slots.length > 1) dropOldest()
  }

  return {
    add,
    /**
     * Counts by node, in the order of `trafficFigures`, of the routes and TCP edges that `isAsked` accepts, in reports that
     * came since a moment. A node that is not in it is unknown: it does not count, or this process does not know it for so
     * long. What has counted nothing has zeros.
     */
    byNode(cell: string, isAsked: (target: string) => boolean, sinceMs: number): Map<string, number[]> {
      const known = [...since].filter(([name, first]) => name.startsWith(`${cell} `) && first <= sinceMs)
      const sums = new Map(
        sinceMs < Math.max(forgottenUntil, clock() - keptForMs)
          ? []
          : known.map(([name]) => [name.slice(cell.length + 1), noTraffic()]),
      )
      for (const { slot, counts: inSlot } of slots) {
        if (slot < sinceMs) continue
        for (const { node, target, counts } of inSlot.values()) {
          const sum = sums.get(node)
          if (sum && isAsked(target))
            for (const [index, count] of counts.entries()) sum[index] = (sum[index] ?? 0) + count
        }
      }
      return sums
    },
  }
}
export type RecentTraffic = ReturnType<typeof createRecentTraffic>
