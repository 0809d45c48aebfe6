import type { Log } from '../kernel/log.ts'
import { type Timing, wait } from '../kernel/timing.ts'

/**
 * Runs one step at a time; arrivals during a step go into the next one. A failed step, for example on a full disk, is
 * repeated a second later with the same input, because dropped input would go missing unnoticed.
 */
export function createWorker<Item>(
  { log, timing, retryMs }: { log: Log; timing: Timing; retryMs: number },
  step: (items: Item[], signal: AbortSignal) => Promise<void>,
) {
  const waiting: Item[] = []
  let isDue = false
  let drops = 0
  let running: Promise<void> | undefined
  const stopping = new AbortController()
  const { signal } = stopping

  async function run(): Promise<void> {
    while (isDue && !signal.aborted) {
      const items = waiting.splice(0)
      const dropsBefore = drops
      isDue = false
      try {
        await step(items, signal)
      } catch (err) {
        if (drops === dropsBefore) waiting.unshift(...items)
        isDue = true
        if (signal.aborted) return
        log.error({ err }, 'an agent step failed; retrying in a second')
        await wait(timing, retryMs, signal)
      }
    }
  }

  function soon(): void {
    isDue = true
    running ??= run().finally(() => {
      running = undefined
      if (isDue && !signal.aborted) soon()
    })
  }

  return {
    soon,
    add(items: readonly Item[]): void {
      if (items.length === 0) return
      waiting.push(...items)
      soon()
    },
    /** Waiting input counts as never received, and so does the current step's if it fails. */
    drop(): void {
      waiting.length = 0
      drops++
    },
    async stop(): Promise<void> {
      stopping.abort()
      await running
    },
  }
}
