import type { Msg, NatsConnection } from '@nats-io/transport-node'
import type { DbPool } from '../../db/pool.ts'
import { allRequests, senderOf } from '../../distribution/channels.ts'
import { type BatchAnswer, readBatch } from '../../distribution/request_batch.ts'
import type { Clock } from '../../kernel/clock.ts'
import { Crowded, createGate } from '../../kernel/flow/gate.ts'
import { type Kept, keepRequests } from '../../resources/requests/keep.ts'
import type { FindOthers } from './believed.ts'

/** Queue group: NATS gives each batch to one of its processes. */
const queue = 'gatehouse'

type Parts = {
  readonly db: DbPool
  readonly findOthers: FindOthers
  readonly clock: Clock
  readonly retentionMs: number
  readonly quotaPerHour: number
  /** `refused`: parts of a batch that were out of bounds, or all of it. */
  readonly onTaken: (node: string, taken: Kept & { refused: number }) => void
  readonly onError: (error: unknown) => void
}

/**
 * Receives the requests that nodes have kept, in any process. A node sends an unanswered batch again: while the database
 * is down, and while too many arrive. Handles two batches at a time, one per node, so that flooding nodes leave
 * connections to others.
 */
export function takeInRequests(
  nats: NatsConnection,
  { db, findOthers, clock, retentionMs, quotaPerHour, onTaken, onError }: Parts,
): void {
  const gate = createGate({ total: 2, perOwner: 1, maxWaitingPerOwner: 1, waitMs: 2_000 })

  async function takeIn(message: Msg): Promise<void> {
    const { node, cell } = senderOf(message.subject)
    const answer = (text: BatchAnswer) => message.respond(text)
    const now = clock()
    const end = await gate.enter(node)
    try {
      const read = readBatch(message.string(), message.subject, now, now - retentionMs)
      if (!read) {
        onTaken(node, { kept: 0, dropped: 0, unknown: 0, refused: 1 })
        answer('unreadable')
        return
      }
      const { batch, refused } = read
      const others = await findOthers(
        cell,
        [...batch.requests, ...batch.dropped].map(({ account }) => account),
      )
      const isOwn = ({ account }: { account: string }): boolean => !others.has(account)
      const requests = batch.requests.filter(isOwn)
      const kept = await keepRequests(db, { ...batch, requests, dropped: batch.dropped.filter(isOwn) }, quotaPerHour)
      const unknown = kept.unknown + batch.requests.length - requests.length
      onTaken(node, { ...kept, unknown, refused })
      answer('kept')
    } finally {
      end()
    }
  }

  for (const subject of allRequests)
    nats.subscribe(subject, {
      queue,
      callback: (error, message) => {
        if (!error) takeIn(message).catch((failure) => failure instanceof Crowded || onError(failure))
      },
    })
}
