import type { NatsConnection } from '@nats-io/transport-node'
import { wakeSubject } from '../distribution/channels.ts'
import { type Timing, wait } from '../kernel/timing.ts'

/** Ends a wait early when any process has committed a change of any cell. */
export function createWake(nats: Pick<NatsConnection, 'subscribe'>, timing: Timing) {
  let pending = false
  let ring = () => {}
  const subscription = nats.subscribe(wakeSubject, {
    callback() {
      pending = true
      ring()
    },
  })
  return {
    /** Resolves to whether it was woken. */
    async wait(ms: number, signal: AbortSignal): Promise<boolean> {
      if (!pending) {
        const rung = new AbortController()
        ring = () => rung.abort()
        await wait(timing, ms, AbortSignal.any([signal, rung.signal]))
      }
      const isWoken = pending
      pending = false
      return isWoken
    },
    stop: () => subscription.unsubscribe(),
  }
}
