/**
 * A bounded buffer of lines to write. Once it is half full, no account may hold more than a quarter of it, so an account
 * that floods the log loses its own lines first. Counts the lines that it drops.
 */
export function createLineBuffer(limit: number) {
  let waiting: { account: string; line: string }[] = []
  const heldBy = new Map<string, number>()
  let dropped = 0
  return {
    /** False if the line was dropped. */
    add(account: string, line: string): boolean {
      const held = heldBy.get(account) ?? 0
      if (waiting.length >= limit || (waiting.length >= limit / 2 && held >= limit / 4)) {
        dropped++
        return false
      }
      waiting.push({ account, line })
      heldBy.set(account, held + 1)
      return true
    },
    take(most: number): string[] {
      const taken = waiting.slice(0, most)
      waiting = waiting.slice(most)
      for (const { account } of taken) {
        const left = (heldBy.get(account) ?? 1) - 1
        if (left > 0) heldBy.set(account, left)
        else heldBy.delete(account)
      }
      return taken.map(({ line }) => line)
    },
    /** Counts lines that were taken but could not be delivered. */
    lost(count: number): void {
      dropped += count
    },
    size: () => waiting.length,
    dropped: () => dropped,
  }
}
export type LineBuffer = ReturnType<typeof createLineBuffer>
