import { deleteInBatches } from '../../db/batches.ts'
import { type Db, many, maybeOne, one, run } from '../../db/pool.ts'
import { nothing, sql } from '../../db/sql.ts'
import type { Caller } from '../../identity/caller.ts'
import { rfc3339 } from '../../kernel/clock.ts'
import { type Id, toUuid, type Uuid } from '../../kernel/ids.ts'
import { rowsToFetch } from '../../kernel/paging.ts'
import type { AlertQuery, AlertState, Condition } from './schema.ts'

type Account = Pick<Caller, 'accountId'>

export type AlertRow = {
  id: Uuid
  rule_id: Uuid
  kind: Condition
  /** Empty: the account itself. */
  resource_id: string
  state: AlertState
  reason: string
  since: string
  fired_at: string | null
  clear_since: string | null
  unclear_since: string | null
  resolved_at: string | null
  notified_at: string | null
}

const columns = sql`
      a.id, a.rule_id, a.kind, a.resource_id, a.state, a.reason, a.since, a.fired_at, a.clear_since, a.unclear_since,
      a.resolved_at, a.notified_at`

export const findAlert = (db: Db, { accountId }: Account, id: Id<'alt'>) =>
  maybeOne<AlertRow>(
    db,
    sql`select ${columns} from alerts a where a.account_id = ${accountId} and a.id = ${toUuid(id)}`,
  )

export const listAlerts = (db: Db, { accountId }: Account, query: AlertQuery) =>
  many<AlertRow>(
    db,
    sql`
    select ${columns} from alerts a
    where a.account_id = ${accountId} ${query.before_id ? sql`and a.id < ${toUuid(query.before_id)}` : nothing}
      ${query.state ? sql`and a.state = ${query.state}` : nothing}
      ${query.rule_id ? sql`and a.rule_id = ${toUuid(query.rule_id)}` : nothing}
    order by a.id desc limit ${rowsToFetch(query)}`,
  )

export const openAlerts = (db: Db, accountId: Uuid) =>
  many<AlertRow>(
    db,
    sql`select ${columns} from alerts a where a.account_id = ${accountId} and a.state <> 'resolved' order by a.id`,
  )

/** Alert notifications to the account within the last hour. */
export const countNotified = async (db: Db, accountId: Uuid): Promise<number> =>
  (
    await one<{ count: number }>(
      db,
      sql`select count(*) from alerts where account_id = ${accountId} and notified_at > now() - interval '1 hour'`,
    )
  ).count

export async function writeAlerts(
  tx: Db,
  accountId: Uuid,
  { written, gone }: { written: readonly AlertRow[]; gone: readonly Uuid[] },
): Promise<void> {
  if (gone.length > 0)
    await run(tx, sql`delete from alerts where account_id = ${accountId} and id = any(${gone}::uuid[])`)
  if (written.length === 0) return
  await run(
    tx,
    sql`
    insert into alerts (account_id, id, rule_id, kind, resource_id, state, reason, since, fired_at, clear_since,
      unclear_since, resolved_at, notified_at)
    select ${accountId}, a.id, a.rule_id, a.kind, a.resource_id, a.state, a.reason, a.since, a.fired_at, a.clear_since,
      a.unclear_since, a.resolved_at, a.notified_at
    from json_to_recordset(${JSON.stringify(written)}::json) as a (id uuid, rule_id uuid, kind text, resource_id text,
      state text, reason text, since timestamptz, fired_at timestamptz, clear_since timestamptz,
      unclear_since timestamptz, resolved_at timestamptz, notified_at timestamptz)
    on conflict (account_id, id) do update set state = excluded.state, reason = excluded.reason,
      fired_at = excluded.fired_at, clear_since = excluded.clear_since, unclear_since = excluded.unclear_since,
      resolved_at = excluded.resolved_at, notified_at = excluded.notified_at`,
  )
}

/** Retention of resolved alerts. */
export const historyOf = { count: 1_000, days: 90 }

export const forgetBeyondCount = (tx: Db, accountId: Uuid): Promise<void> =>
  run(
    tx,
    sql`
    delete from alerts where account_id = ${accountId} and id in (
      select id from alerts where account_id = ${accountId} and state = 'resolved'
      order by id desc offset ${historyOf.count})`,
  )

export const forgetResolvedBefore = (db: Db, moment: number): Promise<number> =>
  deleteInBatches(db, sql`alerts`, sql`state = 'resolved' and resolved_at < ${rfc3339(moment)}`)

export const countFiring = async (db: Db): Promise<{ firing: number; overdueSeconds: number }> =>
  one(
    db,
    sql`
    select (select count(*) from alerts where state = 'firing') as firing,
      coalesce((select greatest(0, extract(epoch from now() - min(due_at)))::float8 from alert_turns), 0) as "overdueSeconds"`,
  )
