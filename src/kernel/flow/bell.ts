import { pause } from './pause.ts'

/** Wakes pollers when there may be work, so that they can poll rarely. */
export type Bell = {
  ring: () => void
  /** Number of rings. Read it before polling, so that a ring meanwhile is not missed. */
  count: () => number
  /** Resolves once the count exceeds `since`, the time is over, or the signal aborts. */
  wait: (since: number, ms: number, signal: AbortSignal) => Promise<void>
}

export function createBell(): Bell {
  let count = 0
  const waiting = new Set<() => void>()
  return {
    ring() {
      count++
      for (const wake of waiting) wake()
      waiting.clear()
    },
    count: () => count,
    async wait(since, ms, signal) {
      if (count > since) return
      const rung = new AbortController()
      const wake = () => rung.abort()
      waiting.add(wake)
      await pause(ms, AbortSignal.any([signal, rung.signal]))
      waiting.delete(wake)
    },
  }
}
