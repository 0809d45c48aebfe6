const kept = 1_000

/** Tracks which generation was in force when: a request is logged after its decision. */
export function createGenerations() {
  let changes: { since: number; generation: number }[] = []
  return {
    note(generation: number, now: number): void {
      if (changes.at(-1)?.generation === generation) return
      changes.push({ since: now, generation })
      if (changes.length > 2 * kept) changes = changes.slice(-kept)
    },
    /** For a time before all known ones, returns the oldest known generation. */
    at(moment: number): number {
      const last = changes.findLast(({ since }) => since <= moment) ?? changes[0]
      return last?.generation ?? 0
    },
  }
}
export type Generations = ReturnType<typeof createGenerations>
