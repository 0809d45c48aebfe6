import type { NatsConnection } from '@nats-io/transport-node'
import type { Channels } from '../../distribution/channels.ts'
import { maxMessageBytes } from '../../distribution/nats_connection.ts'
import type { RequestBatch } from '../../distribution/request_batch.ts'
import type { Kept } from './kept.ts'

const lookEveryMs = 250
const answerWithinMs = 5_000
const retryAfterMs = 2_000

/**
 * Sends the kept requests to the control plane in batches. A batch is repeated under the same id until it is answered,
 * so one whose answer was lost counts once. An older control plane does not answer; only what exceeds the buffer is lost
 * then.
 */
export function createDelivery(nats: NatsConnection, channels: Channels, kept: Kept) {
  let batch: RequestBatch | undefined
  let notBefore = 0
  let sending: Promise<void> | undefined

  /**
   * Splits a batch that has become too large. The control plane identifies requests by their ids, so they can be sent
   * again even if the batch arrived and only its answer was lost. Its counts of dropped requests may then count twice.
   */
  function nextText(): string | undefined {
    const maxBytes = maxMessageBytes(nats)
    const text = batch && JSON.stringify(batch)
    if (batch && text && Buffer.byteLength(text) <= maxBytes) return text
    if (batch) kept.giveBack(batch)
    batch = kept.take(maxBytes)
    return batch && JSON.stringify(batch)
  }

  async function send(withinMs: number): Promise<boolean> {
    if (nats.isClosed()) return false
    const text = nextText()
    if (!batch || text === undefined) return false
    try {
      await nats.request(channels.requests(batch.node), text, { timeout: withinMs })
      batch = undefined
      return true
    } catch {
      notBefore = Date.now() + retryAfterMs
      return false
    }
  }
  async function sendAll(): Promise<void> {
    while (await send(answerWithinMs));
  }
  const timer = setInterval(() => {
    if (sending || Date.now() < notBefore) return
    sending = sendAll().finally(() => {
      sending = undefined
    })
  }, lookEveryMs)

  return {
    /** Tries once more, because kept requests do not survive a restart. */
    async stop(): Promise<void> {
      clearInterval(timer)
      if (!sending) await send(1_000)
    },
  }
}
