import { type Db, many, maybeOne } from '../../db/pool.ts'
import { nothing, sql } from '../../db/sql.ts'
import type { Caller } from '../../identity/caller.ts'
import { firstUuidOf, type Id, momentOfUuid, toUuid, type Uuid } from '../../kernel/ids.ts'
import { rowsToFetch } from '../../kernel/paging.ts'
import { lockRollout, rollouts, type StoredRollout } from '../../operations/rollouts.ts'
import type { AuditedEvent } from '../audit_events/store.ts'
import type { RolloutQuery, RolloutState } from './schema.ts'

type Account = Pick<Caller, 'accountId'>

const which = ({ accountId }: Account, id: Id<'ro'>) => sql`r.account_id = ${accountId} and r.public_id = ${toUuid(id)}`

/** `lock`: as every decision about a rollout does. */
export const findRollout = (
  db: Db,
  caller: Account,
  id: Id<'ro'>,
  lock: boolean,
): Promise<StoredRollout | undefined> =>
  lock ? lockRollout(db, which(caller, id)) : maybeOne<StoredRollout>(db, rollouts(which(caller, id)))

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

export const listRollouts = (db: Db, { accountId }: Account, query: RolloutQuery): Promise<StoredRollout[]> =>
  many<StoredRollout>(
    db,
    sql`
    ${rollouts(sql`r.account_id = ${accountId}
      ${query.before_id ? sql`and r.public_id < ${toUuid(query.before_id)}` : nothing}
      ${query.state ? sql`and ${conditions[query.state]}` : nothing}
      ${query.cell === undefined ? nothing : sql`and c.name = ${query.cell}`}`)}
    order by r.public_id desc
    limit ${rowsToFetch(query)}`,
  )

/** Those that a change is part of. */
export const rolloutsOf = (db: Db, { accountId }: Account, generation: number): Promise<StoredRollout[]> =>
  many<StoredRollout>(
    db,
    sql`
    ${rollouts(sql`r.account_id = ${accountId} and r.since <= ${generation} and r.open_until >= ${generation}`)}
    order by r.id desc
    limit 20`,
  )

/** In which wave each node of a cell is, by name. */
export async function wavesOfNodes(db: Db, cellId: number): Promise<ReadonlyMap<string, number>> {
  const rows = await many<{ name: string; wave: number }>(
    db,
    sql`select name, wave from fleet_nodes where cell_id = ${cellId} and revoked_at is null`,
  )
  return new Map(rows.map(({ name, wave }) => [name, wave]))
}

/** Longer than a change takes, and than clocks differ. */
const slackMs = 10 * 60_000

/** The newest of its audit events, newest first. An id begins with its time, which says in which partitions they are. */
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
