import type { Bell } from '../kernel/flow/bell.ts'
import { pause } from '../kernel/flow/pause.ts'
import { newUuid, type Uuid } from '../kernel/ids.ts'
import { waitAtMost } from '../kernel/wait_at_most.ts'
import { type Lease, takeLeases } from './queue.ts'
import { type Parts, takeTurn } from './turn.ts'

/** Concurrent destinations per process, in total and per account. */
const slots = 32
const slotsPerAccount = 4
const lookEveryMs = 250
/** Poll interval after idle time. Changes made by this process wake it earlier; other processes handle theirs. */
const lookWhenIdleMs = 2_000
const busyForMs = 5_000

/**
 * Sends events to webhook destinations. Runs in every serving process; a lease keeps two from sending for one
 * destination. Slots per account are limited, so that destinations that never answer cannot occupy all of them.
 * `changes` rings when there may be new events.
 */
export function runWebhooks(
  parts: Parts,
  changes: Bell,
  onError: (error: unknown) => void,
): { stop: () => Promise<void> } {
  const holder = newUuid()
  const stopping = new AbortController()
  const ending = new AbortController()
  const running = new Map<Lease, Promise<void>>()
  let busyAt = performance.now()

  const busyAccounts = (): Uuid[] => {
    const counts = new Map<Uuid, number>()
    for (const { accountId } of running.keys()) counts.set(accountId, (counts.get(accountId) ?? 0) + 1)
    return [...counts].filter(([, count]) => count >= slotsPerAccount).map(([accountId]) => accountId)
  }

  async function look(): Promise<void> {
    const free = slots - running.size
    if (free === 0) return
    const now = parts.clock()
    for (const lease of await takeLeases(parts.db, { holder, free, busy: busyAccounts(), now })) {
      const turn = takeTurn(parts, lease, { stopping: stopping.signal, ending: ending.signal })
        .catch(onError)
        .finally(() => running.delete(lease))
      running.set(lease, turn)
    }
    if (running.size > 0) busyAt = performance.now()
  }

  async function loop(): Promise<void> {
    while (!stopping.signal.aborted) {
      const [began, rung] = [performance.now(), changes.count()]
      await look().catch(onError)
      // Polls less often if polling many destinations is slow.
      await pause(Math.max(lookEveryMs, 4 * (performance.now() - began)), stopping.signal)
      if (performance.now() - busyAt > busyForMs) await changes.wait(rung, lookWhenIdleMs, stopping.signal)
    }
  }
  const looping = loop()

  return {
    /** Gives requests in progress a moment to finish. The next process repeats those that are cut off. */
    async stop() {
      stopping.abort()
      await looping
      await waitAtMost(3_000, Promise.all(running.values()))
      ending.abort()
      await Promise.all(running.values())
    },
  }
}
