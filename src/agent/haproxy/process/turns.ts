/** One thing at a time, in the order in which they were asked for. */
export function createTurns() {
  let last: Promise<unknown> = Promise.resolve()
  return {
    next<T>(work: () => Promise<T>): Promise<T> {
      const mine = last.then(work)
      last = mine.catch(() => {})
      return mine
    },
    /** Everything that was asked for until now. */
    ended: async (): Promise<void> => void (await last),
  }
}
export type Turns = ReturnType<typeof createTurns>
