/** Which cells each process publishes, by the number of its session. */
export type Shares = ReadonlyMap<number, ReadonlySet<number>>

type View = {
  own: number
  /** Every session that holds a lock or counts. */
  shares: Shares
  /** Those that can take cells: they have NATS and a signing key, and have not failed lately. */
  counting: ReadonlySet<number>
  /** Every cell that has a publisher or needs one. */
  cells: ReadonlySet<number>
}
type Turn = { take: ReadonlySet<number>; giveUp: number | undefined }

/** For so many looks a process leaves nothing to others after they did not take what it left. */
const keptForLooks = 60

/**
 * Decides which cells this process should take, and which one it should leave to another. Processes do not talk to each
 * other: each looks at the locks of all of them, and the locks decide who was first.
 *
 * A cell without a publisher is taken at once by a process that has less than its share, and at the second look by any
 * process: the one that should have it may not be able to. The process with the most cells leaves one to a process that
 * has at least two fewer, one at a time, so that processes with the same view do not all leave one.
 */
export function createShare() {
  /** For how many looks each has been without a publisher. */
  let freeFor: ReadonlyMap<number, number> = new Map()
  /** The cell that it left last, and to which process. */
  let left: { cell: number; to: number } | undefined
  let keepFor = 0

  return function look({ own, shares, counting: counted, cells }: View): Turn {
    // When all have failed lately, each tries everything.
    const counting = counted.size > 0 ? counted : new Set([own])
    const held = new Set([...shares.values()].flatMap((share) => [...share]))
    const free = [...cells].filter((cell) => !held.has(cell))
    freeFor = new Map(free.map((cell) => [cell, (freeFor.get(cell) ?? 0) + 1]))
    const sizeOf = (session: number): number => shares.get(session)?.size ?? 0
    const missing = counting.has(own) ? Math.max(0, Math.floor(cells.size / counting.size) - sizeOf(own)) : 0
    const hasAnother = left && held.has(left.cell) && !shares.get(own)?.has(left.cell)
    if (left && (hasAnother || !counting.has(left.to))) left = undefined
    const isLeft = (cell: number): boolean => cell === left?.cell
    // What it has left comes last: the others have looked twice by then.
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
