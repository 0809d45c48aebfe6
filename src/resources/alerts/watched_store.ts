import { allowedWithinMs } from '../../access/evidence/address_outcomes.ts'
import { type Db, many, one } from '../../db/pool.ts'
import { nothing, sql } from '../../db/sql.ts'
import type { Caller } from '../../identity/caller.ts'
import { rfc3339 } from '../../kernel/clock.ts'
import { type BackendKind, type BackendPrefix, backendKinds } from '../../kernel/edge/backends.ts'
import { toUuid, type Uuid } from '../../kernel/ids.ts'
import type { WatchedId } from './schema.ts'

// Inputs of alert conditions that are not part of resource health.

type Account = Pick<Caller, 'accountId'>

/**
 * Backends that receive traffic from an edge or a route, directly or in a group. `only`: limits the result to this one.
 */
export async function usedBackends(
  db: Db,
  { accountId }: Account,
  { before, limit, only }: { before: Uuid | undefined; limit: number; only: WatchedId | null },
): Promise<{ id: Uuid; prefix: BackendPrefix }[]> {
  const rows = await many<{ id: Uuid; kind: BackendKind }>(
    db,
    sql`
    with used as (
      select m.backend_id as id from edge_modules m
      where m.account_id = ${accountId} and m.backend_id is not null and m.enabled)
    select b.id, b.kind from backends b
    where b.account_id = ${accountId} ${before ? sql`and b.id < ${before}` : nothing}
      ${only ? sql`and b.id = ${toUuid(only)}` : nothing}
      and (b.id in (select id from used) or b.id in (
        select g.member_id from backend_members g where g.account_id = ${accountId} and g.group_id in (select id from used)))
    order by b.id desc limit ${limit}`,
  )
  return rows.map(({ id, kind }) => ({ id, prefix: backendKinds[kind] }))
}

/** Total and failed requests of an edge, a route or the account. Client disconnects are not failures. */
export const countFailedAndAll = (
  db: Db,
  { accountId }: Account,
  { edge, route, since, until }: { edge?: WatchedId; route?: WatchedId; since: string; until: string },
) =>
  one<{ failed: number; all: number }>(
    db,
    sql`
    select coalesce(sum(backend_5xx + unreachable + no_response + timeout + edge), 0)::bigint as failed,
      coalesce(sum(requests), 0)::bigint as "all"
    from traffic_minutes
    where account_id = ${accountId} and at >= ${since} and at < ${until}
      ${edge ? sql`and edge_id = ${toUuid(edge)}` : nothing} ${route ? sql`and route_id = ${toUuid(route)}` : nothing}`,
  )

/** Stops counting here. */
const mostCounted = 1_000

/** Counts by the last outcome of each address, without deciding again. */
export const newlyRefusedSince = async (db: Db, { accountId }: Account, since: number): Promise<number> =>
  (
    await one<{ count: number }>(
      db,
      sql`
      select count(*) from (
        select from address_outcomes o
        where o.account_id = ${accountId} and o.refused_at > o.allowed_at and o.refused_at >= ${rfc3339(since)}
          and o.allowed_at >= ${rfc3339(since - allowedWithinMs)}
        limit ${mostCounted}) refused`,
    )
  ).count

export const haltedRollouts = (db: Db, { accountId }: Account) =>
  many<{ cell: string; reason: string | null }>(
    db,
    sql`
    select distinct on (c.name) c.name as cell, r.reason from rollouts r join cells c on c.id = r.cell_id
    where r.account_id = ${accountId} and r.ended_at is null and r.state = 'halted' order by c.name, r.id`,
  )
