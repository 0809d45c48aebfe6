import { setTimeout } from 'node:timers/promises'
import { type AcmeParts, type Outcome, workOnOrder } from './worker.ts'

/** Concurrent orders per process; most of the time they wait for the authority. */
const slots = 4
const lookEveryMs = 2_000

type Watch = { onOutcome: (outcome: Outcome) => void; onError: (error: unknown) => void }

/** Runs in every serving process. Leases keep two processes from working on the same order. */
export function runOrders(
  parts: Omit<AcmeParts, 'signal'>,
  { onOutcome, onError }: Watch,
): { stop: () => Promise<void> } {
  const stopping = new AbortController()
  const { signal } = stopping
  async function slot(): Promise<void> {
    while (!signal.aborted) {
      const outcome = await workOnOrder({ ...parts, signal }).catch(onError)
      if (outcome) onOutcome(outcome)
      else await setTimeout(lookEveryMs, undefined, { signal }).catch(() => {})
    }
  }
  const running = Promise.all(Array.from({ length: slots }, slot))
  return {
    async stop() {
      stopping.abort()
      await running
    },
  }
}
