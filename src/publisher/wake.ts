import type { NatsConnection } from '@nats-io/transport-node'
import { wakeSubject } from '../distribution/channels.ts'
import { pause } from '../kernel/pause.ts'

/** Ends a wait early when a process has committed a change. */
export function createWake(nats: NatsConnection) {
  let pending = false
  let ring = () => {}
  const subscription = nats.subscribe(wakeSubject, {
    callback() {
      pending = true
      ring()
    },
  })
  return {
    async wait(ms: number, signal: AbortSignal) {
      if (!pending) {
        const rung = new AbortController()
        ring = () => rung.abort()
        await pause(ms, AbortSignal.any([signal, rung.signal]))
      }
      pending = false
    },
    stop: () => subscription.unsubscribe(),
  }
}
