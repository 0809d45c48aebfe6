import { type Db, later, many, one } from '../../db/pool.ts'
import { nothing, sql } from '../../db/sql.ts'
import type { Caller } from '../../identity/caller.ts'
import { firstUuidOf, type Id, toId, toUuid, type Uuid } from '../../kernel/ids.ts'
import { rowsToFetch } from '../../kernel/paging.ts'
import type { WebhookDelivery, WebhookDeliveryQuery } from './schema.ts'

type Account = Pick<Caller, 'accountId'>

export async function listDeliveries(
  db: Db,
  { accountId }: Account,
  destination: Id<'whd'>,
  query: WebhookDeliveryQuery,
): Promise<WebhookDelivery[]> {
  const rows = await many<Omit<WebhookDelivery, 'id'> & { event_id: Uuid }>(
    db,
    sql`
    select event_id, operation, resource_id, status, attempts,
      case when status = 'pending' then next_attempt_at end as next_attempt_at, last_attempt_at, last_status, last_error
    from webhook_deliveries
    where account_id = ${accountId} and destination_id = ${toUuid(destination)}
      ${query.status ? sql`and status = ${query.status}` : nothing}
      ${query.before_id ? sql`and event_id < ${toUuid(query.before_id)}` : nothing}
    order by event_id desc
    limit ${rowsToFetch(query)}`,
  )
  return rows.map(({ event_id, ...row }) => ({ id: toId('ev', event_id), ...row }))
}

/** Includes events that were never sent to this destination, or so long ago that their delivery is forgotten. */
export async function replayEvents(
  tx: Db,
  { accountId }: Account,
  destination: Id<'whd'>,
  events: readonly Id<'ev'>[],
): Promise<number> {
  await wake(tx, accountId, destination)
  const replayed = await many(
    tx,
    sql`
    insert into webhook_deliveries as w
      (account_id, destination_id, event_id, position, operation, resource_id, status)
    select account_id, ${toUuid(destination)}, id, position, operation, resource_id, 'pending'
    from audit_events where account_id = ${accountId} and id = any(${events.map(toUuid)}::uuid[])
    on conflict (account_id, destination_id, event_id) do update set
      status = 'pending', attempts = 0, next_attempt_at = statement_timestamp()
    returning event_id`,
  )
  return replayed.length
}

export async function replayDead(
  tx: Db,
  { accountId }: Account,
  destination: Id<'whd'>,
  since: number,
): Promise<number> {
  await wake(tx, accountId, destination)
  const { count } = await one<{ count: number }>(
    tx,
    sql`
    with replayed as (
      update webhook_deliveries set status = 'pending', attempts = 0, next_attempt_at = statement_timestamp()
      where account_id = ${accountId} and destination_id = ${toUuid(destination)} and status = 'dead'
        and event_id >= ${firstUuidOf(Math.max(0, since))}
      returning 1)
    select count(*) as count from replayed`,
  )
  return count
}

/**
 * Lock the progress before the deliveries: the worker that adds deliveries locks them in this order, and the reverse
 * would deadlock.
 */
const wake = (tx: Db, accountId: Uuid, destination: Id<'whd'>) =>
  later(
    tx,
    sql`
    update webhook_progress
    set wake_at = statement_timestamp(), leased_until = case when leased_by is null then null else leased_until end
    where account_id = ${accountId} and destination_id = ${toUuid(destination)}`,
  )

/** Deletes finished deliveries after their retention, in batches, one destination at a time. */
export async function deleteDeliveriesBefore(db: Db, moment: number): Promise<void> {
  for (;;) {
    const { deleted } = await one<{ deleted: number }>(
      db,
      sql`
      with old as (
        select w.account_id, w.destination_id, w.event_id
        from webhook_destinations d, webhook_deliveries w
        where w.account_id = d.account_id and w.destination_id = d.id and w.event_id < ${firstUuidOf(moment)}
          and w.status <> 'pending'
        limit 5000),
      deleted as (
        delete from webhook_deliveries w using old
        where w.account_id = old.account_id and w.destination_id = old.destination_id and w.event_id = old.event_id
        returning 1)
      select count(*) as deleted from deleted`,
    )
    if (deleted < 5_000) return
  }
}
