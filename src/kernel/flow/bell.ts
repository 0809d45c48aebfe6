import { pause } from './pause.ts'

/** Tells those who look now and then that there may be something to do, so that they need not look often. */
export type Bell = {
  ring: () => void
  /** How often it has rung. Read before a look, so that a ring during it counts. */
  count: () => number
  /** Until it has rung more often than this, the time is over, or the signal aborts. */
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
