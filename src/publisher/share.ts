/** The cells that each process publishes, by the number of its database session. */
export type Shares = ReadonlyMap<number, ReadonlySet<number>>

type View = {
  own: number
  /** Every session that holds a lock or counts. */
  shares: Shares
  /** Sessions that can take cells: they have NATS and a signing key, and have not failed recently. */
  counting: ReadonlySet<number>
  /** Every cell that has a publisher or needs one. */
  cells: ReadonlySet<number>
}
type Turn = { take: ReadonlySet<number>; giveUp: number | undefined }

/** For this many looks, a process gives up no cell after no other took the one that it gave up. */
const keptForLooks = 60

/**
 * Decides which cells this process should take, and which one it should give up. Processes do not talk to each other:
 * each looks at the locks of all, and the locks decide who was first.
 *
 * A process with less than its share takes a free cell at the first look, and any process at the second, because the one
 * that should have it may be unable to. The process with the most cells gives up one if another has at least two fewer.
 * It gives up one at a time, so that processes with the same view do not all give one up.
 */
export function createShare() {
  /** Number of looks for which each cell has been without a publisher. */
  let freeFor: ReadonlyMap<number, number> = new Map()
  /** The cell that it gave up last, and the process that should take it. */
  let left: { cell: number; to: number } | undefined
  let keepFor = 0

  return function look({ own, shares, counting: counted, cells }: View): Turn {
    // If all have failed recently, each process tries everything.
    const counting = counted.size > 0 ? counted : new Set([own])
    const held = new Set([...shares.values()].flatMap((share) => [...share]))
    const free = [...cells].filter((cell) => !held.has(cell))
    freeFor = new Map(free.map((cell) => [cell, (freeFor.get(cell) ?? 0) + 1]))
    const sizeOf = (session: number): number => shares.get(session)?.size ?? 0
    const missing = counting.has(own) ? Math.max(0, Math.floor(cells.size / counting.size) - sizeOf(own)) : 0
    const hasAnother = left && held.has(left.cell) && !shares.get(own)?.has(left.cell)
    if (left && (hasAnother || !counting.has(left.to))) left = undefined
    const isLeft = (cell: number): boolean => cell === left?.cell
    // Takes the cell that it gave up last: the others have looked twice by then.
    const isLeftOver = (cell: number): boolean => (freeFor.get(cell) ?? 0) >= (isLeft(cell) ? 3 : 2)
    const take = new Set([...free.filter((cell) => !isLeft(cell)).slice(0, missing), ...free.filter(isLeftOver)])
    keepFor = left && take.has(left.cell) ? keptForLooks : keepFor - 1
    const bySize = [...counting].sort((a, b) => sizeOf(a) - sizeOf(b) || b - a)
    const [fewest = own, most = own] = [bySize.at(0), bySize.at(-1)]
    const hasTooMany = most === own && sizeOf(own) - sizeOf(fewest) >= 2
    if (!hasTooMany || keepFor > 0 || (left && !held.has(left.cell))) return { take, giveUp: undefined }
    left = { cell: Math.max(...(shares.get(own) ?? [])), to: fewest }
    return { take, giveUp: left.cell }
  }
}
