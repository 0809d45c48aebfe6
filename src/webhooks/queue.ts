import { type Db, type DbPool, many, maybeOne, one, run } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { transaction } from '../db/transaction.ts'
import type { SecretsBox } from '../kernel/crypto/secrets_box.ts'
import { firstUuidOf, toId, type Uuid } from '../kernel/ids.ts'
import { matches } from '../kernel/scopes.ts'
import { settledPosition } from '../resources/audit_events/store.ts'
import { type AuditEventRow, toAuditEvent } from '../resources/audit_events/view.ts'
import type { DestinationFormat } from '../resources/webhook_destinations/schema.ts'
import { openWebhookSecrets, type SecretColumns, secretColumns } from '../resources/webhook_destinations/secrets.ts'

/** This process's lease on a destination. */
export type Lease = { accountId: Uuid; destinationId: Uuid; holder: Uuid }
export type Destination = {
  url: string
  format: DestinationFormat
  secrets: string[]
  failingSince: number | null
}
export type Due = { eventId: Uuid; attempts: number }

const leaseSeconds = 60
const eventsAtOnce = 500
/** Limit of pending deliveries per destination. Further events wait in the audit log. */
const maxPending = 10_000
const dayMs = 24 * 60 * 60 * 1_000

/**
 * Leases destinations with pending work, one per account, longest waiting first. Finds new events by the index of
 * positions, within the last day; destinations further behind have a wake time. A leased one keeps its wake time until
 * release: otherwise, if the process is killed or loses the database, its deliveries would wait for the account's next
 * event.
 */
export async function takeLeases(
  db: Db,
  { holder, free, busy, now }: { holder: Uuid; free: number; busy: readonly Uuid[]; now: number },
): Promise<Lease[]> {
  const rows = await many<{ account_id: Uuid; destination_id: Uuid }>(
    db,
    sql`
    with ready as (
      select distinct on (p.account_id) p.account_id, p.destination_id
      from webhook_progress p
        join webhook_destinations d on d.account_id = p.account_id and d.id = p.destination_id
      where d.enabled and (p.leased_until is null or p.leased_until <= now()) and p.account_id <> all(${busy}::uuid[])
        and (p.wake_at <= now() or exists (
          select from audit_events e
          where e.account_id = p.account_id and e.position > p.position and e.id > ${firstUuidOf(now - dayMs)}))
      order by p.account_id, p.leased_until nulls first
    ), taken as (
      select p.account_id, p.destination_id
      from webhook_progress p join ready r on r.account_id = p.account_id and r.destination_id = p.destination_id
      where p.leased_until is null or p.leased_until <= now()
      order by p.leased_until nulls first
      limit ${free}
      for update of p skip locked
    )
    update webhook_progress p
    set leased_by = ${holder}, leased_until = now() + make_interval(secs => ${leaseSeconds}), wake_at = now()
    from taken t where p.account_id = t.account_id and p.destination_id = t.destination_id
    returning p.account_id, p.destination_id`,
  )
  return rows.map((row) => ({ accountId: row.account_id, destinationId: row.destination_id, holder }))
}

const held = ({ accountId, destinationId, holder }: Lease) =>
  sql`account_id = ${accountId} and destination_id = ${destinationId} and leased_by = ${holder}`

/** Undefined if the destination was deleted, disabled or taken by another process. Throws UnreadableSecret. */
export async function renew(db: Db, lease: Lease, box: SecretsBox | undefined): Promise<Destination | undefined> {
  const row = await maybeOne<
    SecretColumns & { url: string; format: DestinationFormat; overlaps: boolean; failing_since: string | null }
  >(
    db,
    sql`
    with renewed as (
      update webhook_progress set leased_until = now() + make_interval(secs => ${leaseSeconds})
      where ${held(lease)} returning failing_since
    )
    select d.url, d.format, ${secretColumns}, renewed.failing_since,
      coalesce(d.previous_secret_expires_at > now(), false) as overlaps
    from webhook_destinations d, renewed
    where d.account_id = ${lease.accountId} and d.id = ${lease.destinationId} and d.enabled`,
  )
  if (!row) return undefined
  // A replaced secret past its overlap may be unreadable, so skip it.
  const counting = row.overlaps ? row : { ...row, previous_secret: null, sealed_previous_secret: null }
  const { current, previous } = openWebhookSecrets(counting, box)
  return {
    url: row.url,
    format: row.format,
    secrets: [current, previous].filter((secret) => secret !== null),
    failingSince: row.failing_since === null ? null : Date.parse(row.failing_since),
  }
}

/**
 * Ends a turn. `isMore`: more work is pending; otherwise the earliest next attempt decides when to continue. `restMs`:
 * sends nothing before that, not even new events.
 */
export const release = (db: Db, lease: Lease, { isMore = false, restMs = 0 } = {}) =>
  run(
    db,
    sql`
    update webhook_progress p
    set leased_by = null, leased_until = now() + make_interval(secs => ${restMs / 1_000}), wake_at = ${
      isMore
        ? sql`now()`
        : sql`(
      select min(next_attempt_at) from (
        select distinct on (resource_id) next_attempt_at from webhook_deliveries w
        where w.account_id = p.account_id and w.destination_id = p.destination_id and w.status = 'pending'
        order by resource_id, position, event_id
      ) heads)`
    }
    where ${held(lease)}`,
  )

/**
 * Turns the next events into deliveries and advances the position in one transaction, so none is lost or duplicated.
 * Stops where transactions are still open, as listCommittedEvents() does. Resolves to the number of events read, and
 * whether the queue is full.
 */
export function fill(pool: DbPool, lease: Lease, oldestKept: number): Promise<{ read: number; isFull: boolean }> {
  const { accountId, destinationId } = lease
  return transaction(pool, async (tx) => {
    const progress = await maybeOne<{ position: number; event_id: Uuid }>(
      tx,
      sql`select position, event_id from webhook_progress where ${held(lease)} for update`,
    )
    const { pending } = await one<{ pending: number }>(
      tx,
      sql`
      select count(*) as pending from (
        select from webhook_deliveries
        where account_id = ${accountId} and destination_id = ${destinationId} and status = 'pending'
        limit ${maxPending}) waiting`,
    )
    if (!progress || pending >= maxPending) return { read: 0, isFull: pending >= maxPending }
    const settled = await settledPosition(tx)
    const events = await many<{
      id: Uuid
      position: number
      operation: string
      resource_id: string
      created_at: string
    }>(
      tx,
      sql`
      select id, position, operation, resource_id, created_at from audit_events
      where account_id = ${accountId} and (position, id) > (${progress.position}, ${progress.event_id})
        and position between ${progress.position} and ${settled}
      order by position, id limit ${eventsAtOnce}`,
    )
    const last = events.at(-1)
    if (!last) return { read: 0, isFull: false }
    // Read after the events, so that a new filter applies to all later events.
    const { operations } = await one<{ operations: string[] }>(
      tx,
      sql`select operations from webhook_destinations where account_id = ${accountId} and id = ${destinationId}`,
    )
    const wanted = events.filter((event) => isWanted(event, destinationId, operations))
    const kept = wanted.filter(({ created_at }) => Date.parse(created_at) >= oldestKept)
    await run(
      tx,
      sql`
      insert into webhook_deliveries (account_id, destination_id, event_id, position, operation, resource_id, status)
      select ${accountId}, ${destinationId}, e.id, e.position, e.operation, e.resource_id, 'pending'
      from unnest(${kept.map(({ id }) => id)}::uuid[], ${kept.map(({ position }) => position)}::bigint[],
        ${kept.map(({ operation }) => operation)}::text[], ${kept.map(({ resource_id }) => resource_id)}::text[])
        as e (id, position, operation, resource_id)
      on conflict do nothing`,
    )
    await run(
      tx,
      sql`
      update webhook_progress
      set position = ${last.position}, event_id = ${last.id}, skipped = skipped + ${wanted.length - kept.length}
      where ${held(lease)}`,
    )
    return { read: events.length, isFull: false }
  })
}

/** A test goes only to its own destination, regardless of the filter. */
function isWanted(
  { operation, resource_id }: { operation: string; resource_id: string },
  destinationId: Uuid,
  operations: readonly string[],
): boolean {
  if (operation === 'webhook_destinations.test') return resource_id === toId('whd', destinationId)
  // It shows where an alert of the rule would go.
  if (operation === 'alert_rules.test') return operations.some((pattern) => matches(pattern, 'alerts.fire'))
  return operations.some((pattern) => matches(pattern, operation))
}

/** The first pending event of each resource, if due; later events of the resource wait for it. */
export async function dueEvents(db: Db, { accountId, destinationId }: Lease, limit: number): Promise<Due[]> {
  const rows = await many<{ event_id: Uuid; attempts: number }>(
    db,
    sql`
    select event_id, attempts from (
      select distinct on (resource_id) event_id, position, attempts, next_attempt_at from webhook_deliveries
      where account_id = ${accountId} and destination_id = ${destinationId} and status = 'pending'
      order by resource_id, position, event_id
    ) heads
    where next_attempt_at <= now()
    order by next_attempt_at, position limit ${limit}`,
  )
  return rows.map(({ event_id, attempts }) => ({ eventId: event_id, attempts }))
}

export async function readEvents(db: Db, { accountId }: Lease, ids: readonly Uuid[]) {
  const rows = await many<AuditEventRow>(
    db,
    sql`
    select id, created_at, operation, operation_id, owner_id, api_key_id, dashboard_session_id, source_ip, resource_id,
      before, after
    from audit_events where account_id = ${accountId} and id = any(${ids}::uuid[])`,
  )
  return new Map(rows.map((row) => [row.id, toAuditEvent(row)]))
}

export type Result = Due & {
  outcome: { status: number | null; error: string | null }
  state: 'pending' | 'delivered' | 'dead'
  waitMs: number
}

/** A success ends a period of failures; a failure starts one. */
export async function writeResults(db: DbPool, lease: Lease, results: readonly Result[]): Promise<void> {
  const { accountId, destinationId } = lease
  const isDelivered = results.some(({ state }) => state === 'delivered')
  await transaction(db, async (tx) => {
    await run(
      tx,
      sql`
      update webhook_deliveries w
      set status = r.state, attempts = w.attempts + 1, last_attempt_at = now(), last_status = r.last_status,
        last_error = r.error, next_attempt_at = now() + make_interval(secs => r.wait_ms / 1000.0)
      from unnest(${results.map(({ eventId }) => eventId)}::uuid[], ${results.map(({ state }) => state)}::text[],
        ${results.map(({ outcome }) => outcome.status)}::int[], ${results.map(({ outcome }) => outcome.error)}::text[],
        ${results.map(({ waitMs }) => Math.round(waitMs))}::bigint[]) as r (event_id, state, last_status, error, wait_ms)
      where w.account_id = ${accountId} and w.destination_id = ${destinationId} and w.event_id = r.event_id`,
    )
    await run(
      tx,
      isDelivered
        ? sql`update webhook_progress set failing_since = null, last_delivered_at = now() where ${held(lease)}`
        : sql`update webhook_progress set failing_since = coalesce(failing_since, now()) where ${held(lease)}`,
    )
  })
}

/** For metrics: number of pending and dead deliveries, and the oldest pending one. */
export const queueFigures = (db: Db) =>
  one<{ pending: number; dead: number; oldest: Uuid | null }>(
    db,
    sql`
    select (select count(*) from webhook_deliveries where status = 'pending') as pending,
      (select count(*) from webhook_deliveries where status = 'dead') as dead,
      (select event_id from webhook_deliveries where status = 'pending' order by event_id limit 1) as oldest`,
  )
