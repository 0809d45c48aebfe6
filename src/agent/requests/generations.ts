const kept = 1_000

/** Which generation was in force on this node, and since when: a request is recorded after it has been decided. */
export function createGenerations() {
  let changes: { since: number; generation: number }[] = []
  return {
    note(generation: number, now: number): void {
      if (changes.at(-1)?.generation === generation) return
      changes.push({ since: now, generation })
      if (changes.length > 2 * kept) changes = changes.slice(-kept)
    },
    /** For what is older than all that is known, the oldest known. */
    at(moment: number): number {
      const last = changes.findLast(({ since }) => since <= moment) ?? changes[0]
      return last?.generation ?? 0
    },
  }
}
export type Generations = ReturnType<typeof createGenerations>
