/** Runs one task at a time, in the order of the calls. */
export function createTurns() {
  let last: Promise<unknown> = Promise.resolve()
  return {
    next<T>(work: () => Promise<T>): Promise<T> {
      const mine = last.then(work)
      last = mine.catch(() => {})
      return mine
    },
    /** Resolves once all earlier tasks have ended. */
    ended: async (): Promise<void> => void (await last),
  }
}
export type Turns = ReturnType<typeof createTurns>
