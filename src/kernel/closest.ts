/** The most likely intended word; undefined if none is similar. */
export function closest(wanted: string, candidates: Iterable<string>): string | undefined {
  const near = new Map<string, number>()
  for (const candidate of candidates) near.set(candidate, editDistance(wanted, candidate))
  const [[found, distance] = ['', Number.POSITIVE_INFINITY]] = [...near].sort(([, a], [, b]) => a - b)
  return distance <= wanted.length / 2 ? found : undefined
}

/** Levenshtein distance. */
function editDistance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, index) => index)
  for (const [at, character] of [...from].entries()) {
    const next = [at + 1]
    for (let index = 1; index <= to.length; index++)
      next.push(
        Math.min(
          (row[index] ?? 0) + 1,
          (next[index - 1] ?? 0) + 1,
          (row[index - 1] ?? 0) + (to[index - 1] === character ? 0 : 1),
        ),
      )
    row = next
  }
  return row.at(-1) ?? 0
}
