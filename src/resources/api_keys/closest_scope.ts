/** The scope that somebody most likely meant: an operation, or all of a resource or of a verb. Undefined when none is near. */
export function closestScope(wanted: string, operations: readonly string[]): string | undefined {
  const near = new Map<string, number>()
  for (const operation of operations) {
    const parts = operation.split('.')
    for (const candidate of [operation, `${parts[0]}.*`, `*.${parts.at(-1)}`])
      near.set(candidate, editDistance(wanted, candidate))
  }
  const [[closest, distance] = ['', Number.POSITIVE_INFINITY]] = [...near].sort(([, a], [, b]) => a - b)
  return distance <= wanted.length / 2 ? closest : undefined
}

/** How many characters must be added, removed or replaced. */
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
