import type { DbPool } from '../db/pool.ts'
import type { Clock } from '../kernel/clock.ts'
import type { SecretsBox } from '../kernel/crypto/secrets_box.ts'
import { UnreadableSecret } from '../kernel/crypto/unreadable_secret.ts'
import { signedHeaders } from '../kernel/crypto/webhook_signature.ts'
import { toId, type Uuid } from '../kernel/ids.ts'
import type { AuditEvent } from '../resources/audit_events/schema.ts'
import { disable } from './disable.ts'
import type { Mail, SendMail } from './mail.ts'
import { messageOf } from './message.ts'
import { payloadOf } from './payload.ts'
import {
  type Destination,
  type Due,
  dueEvents,
  fill,
  type Lease,
  type Result,
  readEvents,
  release,
  renew,
  writeResults,
} from './queue.ts'
import type { Outcome, Send } from './sender.ts'

export type DeliverySettings = {
  /** Pauses between attempts. After the last attempt, the event is dead. */
  retryMs: readonly number[]
  /** Older events are not sent. */
  retentionMs: number
  /** Disables a destination after this period without a successful delivery. */
  disableAfterMs: number
  uri: (path: string) => string
  /** Page of the dashboard that messages link to; undefined without a dashboard. */
  alertsPage: string | undefined
}
export type Parts = {
  db: DbPool
  send: Send
  /** Missing if the operator has no mail server. */
  mail: SendMail | undefined
  /** Opens the signing secrets. Missing if the operator has set no encryption key. */
  secrets: SecretsBox | undefined
  clock: Clock
  settings: DeliverySettings
  count: (state: 'delivered' | 'failed' | 'dead') => void
}

const atOnce = 8
/** After this time, another destination of the account gets its turn. */
const turnMs = 5_000
/** Pause while the queue is full and no more events are taken from the audit log. */
const fullPauseMs = 5_000

/** `stopping`: start nothing new. `ending`: abort requests in progress. */
export type Signals = { stopping: AbortSignal; ending: AbortSignal }

/** Sends what is due at one destination, in order per resource, until nothing is due or the turn is over. */
export async function takeTurn(parts: Parts, lease: Lease, { stopping, ending }: Signals): Promise<void> {
  const { db, clock, settings } = parts
  const ends = clock() + turnMs
  const read = () => renew(db, lease, parts.secrets).catch((error) => rest(db, lease, error))
  while (clock() < ends && !stopping.aborted) {
    const before = await read()
    if (!before) return release(db, lease)
    const { due, isMore, isFull } = await nextEvents(parts, lease, before)
    if (due.length === 0 && isMore) continue
    if (due.length === 0) return release(db, lease, { restMs: isFull ? fullPauseMs : 0 })
    // Read after the events, so that a new URL or secret applies to all later events.
    const destination = await read()
    if (!destination) return release(db, lease)
    const { failingSince } = destination
    const results = await attempt(parts, lease, destination, due, ending)
    // An attempt aborted by shutdown says nothing about the receiver.
    if (ending.aborted) break
    await writeResults(db, lease, results)
    for (const { state } of results) parts.count(state === 'pending' ? 'failed' : state)
    const reason = reasonToDisable(destination, results, clock() - settings.disableAfterMs)
    if (reason) {
      await disable(db, lease, reason, settings.uri)
      return release(db, lease)
    }
    if (failingSince !== null && results.every(({ state }) => state !== 'delivered'))
      return release(db, lease, { restMs: probePauseMs(clock() - failingSince) })
  }
  await release(db, lease, { isMore: true })
}

/** Events that cannot be signed are not sent. They wait in the audit log until the operator restores the key. */
async function rest(db: DbPool, lease: Lease, error: unknown): Promise<never> {
  if (!(error instanceof UnreadableSecret)) throw error
  await release(db, lease, { isMore: true, restMs: 60_000 })
  throw new Error(`the secret of ${toId('whd', lease.destinationId)} cannot be read: ${error.message}`)
}

/** Due deliveries, after filling the queue with new events as needed. */
async function nextEvents({ db, clock, settings }: Parts, lease: Lease, { failingSince }: Destination) {
  // A failing receiver gets one event at a time, so that an outage does not use up the attempts of every event.
  const limit = failingSince === null ? atOnce : 1
  const due = await dueEvents(db, lease, limit)
  if (due.length >= limit) return { due, isMore: true, isFull: false }
  const { read, isFull } = await fill(db, lease, clock() - settings.retentionMs)
  return { due: read > 0 ? await dueEvents(db, lease, limit) : due, isMore: read > 0, isFull }
}

/** The pause between attempts grows with the length of an outage, from a second to a minute. */
const probePauseMs = (failingForMs: number): number => Math.min(60_000, Math.max(1_000, failingForMs / 10))

function reasonToDisable(
  { failingSince }: Destination,
  results: readonly Result[],
  before: number,
): 'gone' | 'failing' | undefined {
  if (results.some(({ outcome }) => outcome.status === 410)) return 'gone'
  const isFailing = results.every(({ state }) => state !== 'delivered')
  return isFailing && failingSince !== null && failingSince < before ? 'failing' : undefined
}

async function attempt(
  { db, send, mail, clock, settings }: Parts,
  lease: Lease,
  { url, format, secrets }: Destination,
  due: readonly Due[],
  signal: AbortSignal,
): Promise<Result[]> {
  const ids = due.map(({ eventId }) => eventId)
  const events = await readEvents(db, lease, ids)
  return Promise.all(
    due.map(async (each) => {
      const event = events.get(each.eventId as Uuid)
      if (!event) {
        const outcome = { status: null, error: 'the event is past its retention', retryAfterMs: 0 }
        return { ...each, outcome, state: 'dead' as const, waitMs: 0 }
      }
      if (format === 'email') {
        const outcome = mail
          ? await mail(mailOf(event, url, { at: clock(), page: settings.alertsPage }), signal)
          : noMail
        return resultOf(each, outcome, settings.retryMs)
      }
      const body = payloadOf(event, format, settings.alertsPage)
      const headers = {
        'content-type': 'application/json',
        'user-agent': 'Gatehouse-Webhooks',
        ...signedHeaders(secrets, { id: event.id, atMs: clock(), body }),
      }
      return resultOf(each, await send(url, headers, body, signal), settings.retryMs)
    }),
  )
}

const noMail: Outcome = { status: null, error: 'the operator has no mail server', retryAfterMs: 0 }

function mailOf(event: AuditEvent, url: string, { at, page }: { at: number; page: string | undefined }): Mail {
  const { title, lines } = messageOf(event, page)
  return { id: event.id, to: url.slice('mailto:'.length), subject: title, text: `${lines.join('\r\n\r\n')}\r\n`, at }
}

function resultOf(due: Due, outcome: Outcome, retryMs: readonly number[]): Result {
  if (outcome.error === null) return { ...due, outcome, state: 'delivered', waitMs: 0 }
  const pause = retryMs[due.attempts]
  if (pause === undefined) return { ...due, outcome, state: 'dead', waitMs: 0 }
  // Jitter, so that simultaneous failures are not retried simultaneously.
  const waitMs = Math.max(pause * (0.8 + 0.4 * Math.random()), outcome.retryAfterMs)
  return { ...due, outcome, state: 'pending', waitMs }
}
