import { type Db, later, many, maybeOne, one, run } from '../../db/pool.ts'
import { nothing, sql } from '../../db/sql.ts'
import type { Caller } from '../../identity/caller.ts'
import { backendPrefixes } from '../../kernel/edge/backends.ts'
import { type Id, newUuid, toUuid, type Uuid } from '../../kernel/ids.ts'
import { type PageQuery, rowsToFetch } from '../../kernel/paging.ts'
import type { Condition, WatchedId } from './schema.ts'

type Account = Pick<Caller, 'accountId'>

export type RuleFields = {
  description: string | null
  metadata: string | null
  resource_id: WatchedId | null
  for_seconds: number
  percent: number | null
  window_minutes: number | null
  enabled: boolean
  silenced_until: string | null
}
export type RuleRow = RuleFields & {
  id: Uuid
  kind: Condition
  created_at: string
  evaluated_at: string | null
  /** Milliseconds since then. */
  age_ms: number | null
  firing: number
  unclear: number
}

const columns = sql`
      r.id, r.description, r.metadata, r.kind, r.resource_id, r.for_seconds, r.percent, r.window_minutes, r.enabled,
      r.silenced_until, r.created_at, r.evaluated_at, r.firing, r.unclear,
      (extract(epoch from statement_timestamp() - r.evaluated_at) * 1000)::float8 as age_ms`

/** Schedules an evaluation now: the change may affect a pending condition. */
const wake = (tx: Db, accountId: Uuid): Promise<void> =>
  later(
    tx,
    sql`
    insert into alert_turns (account_id) values (${accountId})
    on conflict (account_id) do update set due_at = least(alert_turns.due_at, excluded.due_at)`,
  )

export async function insertRule(
  tx: Db,
  { accountId }: Account,
  rule: RuleFields & { kind: Condition },
): Promise<RuleRow> {
  const row = await one<RuleRow>(
    tx,
    sql`
    insert into alert_rules as r (account_id, id, description, metadata, kind, resource_id, for_seconds, percent,
      window_minutes, enabled, silenced_until)
    values (${accountId}, ${newUuid()}, ${rule.description}, ${rule.metadata}, ${rule.kind}, ${rule.resource_id},
      ${rule.for_seconds}, ${rule.percent}, ${rule.window_minutes}, ${rule.enabled}, ${rule.silenced_until})
    returning ${columns}`,
  )
  await wake(tx, accountId)
  return row
}

export const findRule = (db: Db, { accountId }: Account, id: Id<'alr'>, lock: boolean) =>
  maybeOne<RuleRow>(
    db,
    sql`
    select ${columns} from alert_rules r
    where r.account_id = ${accountId} and r.id = ${toUuid(id)} ${lock ? sql`for update` : nothing}`,
  )

export const listRules = (db: Db, { accountId }: Account, query: PageQuery & { before_id?: Id<'alr'> }) =>
  many<RuleRow>(
    db,
    sql`
    select ${columns} from alert_rules r
    where r.account_id = ${accountId} ${query.before_id ? sql`and r.id < ${toUuid(query.before_id)}` : nothing}
    order by r.id desc limit ${rowsToFetch(query)}`,
  )

/** Clears findings, which belong to the former settings. */
export async function updateRule(tx: Db, { accountId }: Account, id: Uuid, rule: RuleFields): Promise<RuleRow> {
  const row = await one<RuleRow>(
    tx,
    sql`
    update alert_rules r set description = ${rule.description}, metadata = ${rule.metadata},
      resource_id = ${rule.resource_id}, for_seconds = ${rule.for_seconds}, percent = ${rule.percent},
      window_minutes = ${rule.window_minutes}, enabled = ${rule.enabled}, silenced_until = ${rule.silenced_until},
      evaluated_at = null
    where r.account_id = ${accountId} and r.id = ${id}
    returning ${columns}`,
  )
  await wake(tx, accountId)
  return row
}

export async function deleteRule(tx: Db, { accountId }: Account, id: Uuid): Promise<void> {
  await later(tx, sql`delete from alert_rules where account_id = ${accountId} and id = ${id}`)
  await wake(tx, accountId)
}

/** Whether the resource that a rule names exists in the account. */
export async function hasWatched(db: Db, { accountId }: Account, id: WatchedId): Promise<boolean> {
  const [prefix = ''] = id.split('_')
  const isBackend = backendPrefixes.some((each) => each === prefix)
  const table = isBackend
    ? sql`backends`
    : prefix === 'cert'
      ? sql`tls_certificates`
      : prefix === 'whd'
        ? sql`webhook_destinations`
        : sql`edges`
  return (
    (await maybeOne(db, sql`select id from ${table} where account_id = ${accountId} and id = ${toUuid(id)}`)) !==
    undefined
  )
}

export const enabledRules = (db: Db, accountId: Uuid) =>
  many<RuleRow>(
    db,
    sql`select ${columns} from alert_rules r where r.account_id = ${accountId} and r.enabled order by r.id`,
  )

export type Found = { id: Uuid; firing: number; unclear: number }

/**
 * Skips rules that are being changed: the findings belong to their old settings, and the change schedules a new turn.
 */
export const writeFound = (tx: Db, accountId: Uuid, found: readonly Found[]): Promise<void> =>
  run(
    tx,
    sql`
    with free as (
      select id from alert_rules
      where account_id = ${accountId} and id = any(${found.map(({ id }) => id)}::uuid[])
      for no key update skip locked)
    update alert_rules r set evaluated_at = now(), firing = f.firing, unclear = f.unclear
    from free join unnest(${found.map(({ id }) => id)}::uuid[], ${found.map(({ firing }) => firing)}::int[],
      ${found.map(({ unclear }) => unclear)}::int[]) as f (id, firing, unclear) using (id)
    where r.account_id = ${accountId} and r.id = f.id`,
  )

const leaseSeconds = 60
export type Turn = { accountId: Uuid; holder: Uuid }

/** Leases the account whose turn is most overdue to one process. `overdueMs`: only if it is at least this late. */
export async function takeTurn(db: Db, holder: Uuid, overdueMs: number): Promise<Turn | undefined> {
  const row = await maybeOne<{ account_id: Uuid }>(
    db,
    sql`
    update alert_turns t set leased_by = ${holder}, leased_until = next.until, due_at = next.until
    from (
      select account_id, now() + make_interval(secs => ${leaseSeconds}) as until from alert_turns
      where due_at <= now() - make_interval(secs => ${overdueMs / 1_000}) and (leased_until is null or leased_until <= now())
      order by due_at limit 1 for update skip locked) next
    where t.account_id = next.account_id
    returning t.account_id`,
  )
  return row && { accountId: row.account_id, holder }
}

/**
 * Call it in the transaction that writes the findings. False: another process has the turn, so nothing may be written.
 * The lock keeps others from taking the turn, yet lets a rule change reschedule it; otherwise the two could deadlock.
 */
export const holdTurn = async (tx: Db, { accountId, holder }: Turn): Promise<boolean> =>
  (await maybeOne(
    tx,
    sql`
    select account_id from alert_turns
    where account_id = ${accountId} and leased_by = ${holder} and leased_until > now() for key share`,
  )) !== undefined

/** Due immediately if a rule changed meanwhile. An account without rules and open alerts gets one turn a day. */
export const endTurn = (db: Db, { accountId, holder }: Turn, nextMs: number): Promise<void> =>
  run(
    db,
    sql`
    update alert_turns t set leased_by = null, leased_until = null, due_at = case
      when due_at < leased_until then due_at
      when exists (select from alert_rules r where r.account_id = t.account_id)
        or exists (select from alerts a where a.account_id = t.account_id and a.state <> 'resolved')
      then now() + make_interval(secs => ${nextMs / 1_000}) else now() + interval '1 day' end
    where account_id = ${accountId} and leased_by = ${holder}`,
  )
