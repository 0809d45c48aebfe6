import { type Db, many, maybeOne } from '../../db/pool.ts'
import { nothing, sql } from '../../db/sql.ts'
import type { Caller } from '../../identity/caller.ts'
import { firstUuidOf, type Id, momentOfUuid, toUuid, type Uuid } from '../../kernel/ids.ts'
import { rowsToFetch } from '../../kernel/paging.ts'
import { lockRollout, rollouts, type StoredRollout } from '../../operations/rollouts.ts'
import type { AuditedEvent } from '../audit_events/store.ts'
import type { RolloutQuery, RolloutState } from './schema.ts'

type Account = Pick<Caller, 'accountId'>
export type ChangeEvent = Pick<AuditedEvent, 'id' | 'created_at' | 'operation' | 'owner_id' | 'resource_id'>
/** A rollout without its nodes. */
export type FoundRollout = StoredRollout & { change_count: number; latest_change: ChangeEvent | null }

const which = ({ accountId }: Account, id: Id<'ro'>) => sql`r.account_id = ${accountId} and r.public_id = ${toUuid(id)}`

/** `lock`: required for every decision about a rollout. */
export async function findRollout(
  db: Db,
  caller: Account,
  id: Id<'ro'>,
  lock: boolean,
): Promise<FoundRollout | undefined> {
  const found = await (lock
    ? lockRollout(db, which(caller, id))
    : maybeOne<StoredRollout>(db, rollouts(which(caller, id))))
  return found && (await withChanges(db, caller, [found]))[0]
}

const conditions: Readonly<Record<RolloutState, ReturnType<typeof sql>>> = (() => {
  const isFirst = sql`not exists (
      select from rollouts o
      where o.cell_id = r.cell_id and o.account_id = r.account_id and o.ended_at is null and o.id < r.id)`
  return {
    released: sql`r.ended_at is not null`,
    halted: sql`r.ended_at is null and r.reached < 0`,
    releasing: sql`r.ended_at is null and r.reached >= 0 and r.is_urgent and ${isFirst}`,
    watching: sql`r.ended_at is null and r.reached >= 0 and not r.is_urgent and ${isFirst}`,
    waiting: sql`r.ended_at is null and r.reached >= 0 and not ${isFirst}`,
  }
})()

export async function listRollouts(db: Db, account: Account, query: RolloutQuery): Promise<FoundRollout[]> {
  const found = await many<StoredRollout>(
    db,
    sql`
    ${rollouts(sql`r.account_id = ${account.accountId}
      ${query.before_id ? sql`and r.public_id < ${toUuid(query.before_id)}` : nothing}
      ${query.state ? sql`and ${conditions[query.state]}` : nothing}
      ${query.cell === undefined ? nothing : sql`and c.name = ${query.cell}`}`)}
    order by r.public_id desc
    limit ${rowsToFetch(query)}`,
  )
  return withChanges(db, account, found)
}

/** The rollouts that contain a change. */
export async function rolloutsOf(db: Db, account: Account, generation: number): Promise<FoundRollout[]> {
  const found = await many<StoredRollout>(
    db,
    sql`
    ${rollouts(sql`r.account_id = ${account.accountId} and r.since <= ${generation} and r.open_until >= ${generation}`)}
    order by r.id desc
    limit 20`,
  )
  return withChanges(db, account, found)
}

/** An operation writes its first event while it runs, and it runs for seconds. */
const eventAfterMs = 60_000

/** Adds the number of changes and the latest change. An operation starts a few milliseconds before its event. */
async function withChanges(db: Db, { accountId }: Account, found: readonly StoredRollout[]): Promise<FoundRollout[]> {
  if (found.length === 0) return []
  const counted = await many<{ rollout_id: number; operation_id: Id<'op'>; changes: number }>(
    db,
    sql`
    select rollout_id, max(operation_id) as operation_id, count(*)::int as changes
    from rollout_changes where rollout_id = any(${found.map(({ id }) => id)}::bigint[])
    group by rollout_id`,
  )
  const moments = counted.map(({ operation_id }) => momentOfUuid(toUuid(operation_id)))
  const events = await many<ChangeEvent & Pick<AuditedEvent, 'operation_id'>>(
    db,
    sql`
    select e.* from unnest(
      ${counted.map(({ operation_id }) => operation_id)}::text[],
      ${moments.map((moment) => firstUuidOf(moment))}::uuid[],
      ${moments.map((moment) => firstUuidOf(moment + eventAfterMs))}::uuid[]
    ) as o (id, first, last) cross join lateral (
      select id, created_at, operation, operation_id, owner_id, resource_id from audit_events
      where account_id = ${accountId} and id between o.first and o.last and operation_id = o.id
      order by id limit 1
    ) e`,
  )
  return found.map((rollout) => {
    const own = counted.find(({ rollout_id }) => rollout_id === rollout.id)
    const latest = events.find(({ operation_id }) => operation_id === own?.operation_id)
    return { ...rollout, change_count: own?.changes ?? 0, latest_change: latest ?? null }
  })
}

/** Wave of each node in a cell, by name. */
export async function wavesOfNodes(db: Db, cellId: number): Promise<ReadonlyMap<string, number>> {
  const rows = await many<{ name: string; wave: number }>(
    db,
    sql`select name, wave from fleet_nodes where cell_id = ${cellId} and revoked_at is null`,
  )
  return new Map(rows.map(({ name, wave }) => [name, wave]))
}

/** Longer than any change takes, plus clock differences. */
const slackMs = 10 * 60_000

/** The latest audit events, newest first. Ids start with the time, which selects the partitions. */
export async function eventsOf(
  db: Db,
  { id, account_id: accountId }: Pick<StoredRollout, 'id' | 'account_id'>,
  limit: number,
): Promise<AuditedEvent[]> {
  const changes = await many<{ operation_id: Id<'op'> }>(
    db,
    sql`select operation_id from rollout_changes where rollout_id = ${id} order by operation_id desc limit ${limit}`,
  )
  if (changes.length === 0) return []
  const moments = changes.map(({ operation_id }) => momentOfUuid(toUuid(operation_id)))
  const between = (moment: number): Uuid => firstUuidOf(Math.max(0, moment))
  return many<AuditedEvent>(
    db,
    sql`
    select id, created_at, operation, operation_id, owner_id, api_key_id, dashboard_session_id, source_ip, resource_id, before,
      after, position
    from audit_events
    where account_id = ${accountId} and operation_id = any(${changes.map(({ operation_id }) => operation_id)}::text[])
      and id between ${between(Math.min(...moments) - slackMs)} and ${between(Math.max(...moments) + slackMs)}
    order by id desc
    limit ${limit}`,
  )
}
