/** A call of a client on one value that can be read and written. No two writes have the same value. */
export type Operation = {
  kind: 'read' | 'write'
  value: string | null
  began: number
  /** When it was answered. Infinity: its outcome is unknown, so it may take effect at any time from when it began, or never. */
  ended: number
}

/**
 * Whether there is an order of these operations, in which each takes effect at one moment between its beginning and its end,
 * that explains what was read (Wing and Gong's search, with the memory of Lowe).
 */
export function isLinearizable(initial: string | null, history: readonly Operation[]): boolean {
  const read = new Set(history.filter(({ kind }) => kind === 'read').map(({ value }) => value))
  // A write of unknown outcome that was never read explains nothing, and need not have happened.
  const all = history
    .filter(({ kind, value, ended }) => ended < Number.POSITIVE_INFINITY || (kind === 'write' && read.has(value)))
    .toSorted((a, b) => a.began - b.began)
  const seen = new Set<string>()
  const done = new Uint8Array(all.length)

  /** `from`: everything before it is done. */
  const search = (value: string | null, from: number): boolean => {
    while (done[from]) from++
    if (all.slice(from).every(({ ended }, at) => done[from + at] || ended === Number.POSITIVE_INFINITY)) return true
    let window = ''
    let firstEnd = Number.POSITIVE_INFINITY
    for (let at = from; at < all.length; at++) {
      const { began, ended } = all[at] as Operation
      if (began > firstEnd) break
      window += done[at]
      if (!done[at]) firstEnd = Math.min(firstEnd, ended)
    }
    const state = `${value} ${from} ${window}`
    if (seen.has(state)) return false
    seen.add(state)
    for (let at = from; at < all.length; at++) {
      const operation = all[at] as Operation
      // It began after another one had ended, which must come first.
      if (operation.began > firstEnd) break
      if (done[at] || (operation.kind === 'read' && operation.value !== value)) continue
      done[at] = 1
      if (search(operation.kind === 'write' ? operation.value : value, from)) return true
      done[at] = 0
    }
    return false
  }
  return search(initial, 0)
}
