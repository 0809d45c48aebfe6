import { type Db, many, one } from '../../db/pool.ts'
import { nothing, type SqlFragment, sql } from '../../db/sql.ts'
import type { Caller } from '../../identity/caller.ts'
import { rfc3339 } from '../../kernel/clock.ts'
import type { TrafficFigure } from '../../kernel/edge/traffic.ts'
import { type Id, toUuid } from '../../kernel/ids.ts'

export const groupings = ['account', 'edge', 'route', 'backend', 'node'] as const
export type Grouping = (typeof groupings)[number]
export const steps = ['minute', 'hour', 'day'] as const
export type Step = (typeof steps)[number]

export type Asked = {
  since: number
  until: number
  /** Undefined: sums only. */
  step: Step | undefined
  isByMinute: boolean
  by: Grouping
  edge_id?: Id<'edgtcp' | 'edghts'>
  route_id?: Id<'edghtsrt'>
  backend_id?: Id
  node?: string
}

const keyOf: Record<Grouping, SqlFragment> = {
  account: sql`''`,
  // Includes the kind, which determines the id's prefix even if the edge was deleted.
  edge: sql`edge_kind || ' ' || edge_id`,
  route: sql`edge_kind || ' ' || edge_id || ' ' || route_id`,
  backend: sql`backend_kind || ' ' || backend_id`,
  node: sql`node`,
}
const matching = (
  { accountId }: Caller,
  { since, until, isByMinute, edge_id, route_id, backend_id, node }: Asked,
) => sql`
  from ${isByMinute ? sql`traffic_minutes` : sql`traffic_hours`}
  where account_id = ${accountId} and at >= ${rfc3339(since)} and at < ${rfc3339(until)}
    ${edge_id ? sql`and edge_id = ${toUuid(edge_id)}` : nothing}
    ${route_id ? sql`and route_id = ${toUuid(route_id)}` : nothing}
    ${backend_id ? sql`and backend_id = ${toUuid(backend_id)}` : nothing}
    ${node ? sql`and node = ${node}` : nothing}`

const stepOf = ({ step }: Asked): SqlFragment =>
  step === undefined ? sql`null::timestamptz` : step === 'day' ? sql`date_trunc('day', at, 'UTC')` : sql`at`

export type CountRow = { key: string; at: string | null } & Record<TrafficFigure, number>
export type LatencyRow = { key: string; at: string | null; counted: number; p50: number; p95: number; p99: number }

/** The groups with the most requests: their sums (`at` is null) and all steps with activity. */
export const trafficCounts = (db: Db, caller: Caller, asked: Asked, limit: number) =>
  many<CountRow>(
    db,
    sql`
    with found as (select ${keyOf[asked.by]} as key, ${stepOf(asked)} as step, * ${matching(caller, asked)}),
      chosen as (select key from found group by key order by sum(requests) desc, key limit ${limit})
    select key, step as at, sum(requests)::bigint as requests, sum(refused)::bigint as refused,
      sum(limited)::bigint as limited, sum(backend_5xx)::bigint as backend_5xx, sum(unreachable)::bigint as unreachable,
      sum(no_response)::bigint as no_response, sum(timeout)::bigint as timeout, sum(edge)::bigint as edge,
      sum(client)::bigint as client
    from found where key in (select key from chosen)
    group by grouping sets ((key), (key, step)) order by key, step nulls first`,
  )

/** Latency buckets of the groups with these keys. */
export const trafficLatencies = (db: Db, caller: Caller, asked: Asked, keys: readonly string[]) =>
  many<LatencyRow>(
    db,
    sql`
    with found as (select ${keyOf[asked.by]} as key, ${stepOf(asked)} as step, latencies ${matching(caller, asked)}),
      counted as (
        select key, step, latency >> 40 as bucket, sum(latency & ((1::bigint << 40) - 1)) as counted
        from found, unnest(latencies) latency where key = any(${keys})
        group by grouping sets ((key, latency >> 40), (key, step, latency >> 40))),
      ranked as (
        select key, step, bucket, sum(counted) over (partition by key, step order by bucket) as below,
          sum(counted) over (partition by key, step) as total from counted)
    select key, step as at, total::bigint as counted, min(bucket) filter (where below >= 0.5 * total) as p50,
      min(bucket) filter (where below >= 0.95 * total) as p95, min(bucket) filter (where below >= 0.99 * total) as p99
    from ranked group by key, step, total`,
  )

export const countGroups = async (db: Db, caller: Caller, asked: Asked): Promise<number> =>
  (
    await one<{ count: number }>(
      db,
      sql`select count(distinct key) from (select ${keyOf[asked.by]} as key ${matching(caller, asked)}) found`,
    )
  ).count

/** When this installation started counting. */
export const countingSince = async (db: Db): Promise<string> =>
  (await one<{ began_at: string }>(db, sql`select began_at from traffic_counting`)).began_at

/** Number of these nodes that lost requests. */
export const nodesWithLosses = async (db: Db, nodes: readonly string[], { since, until }: Asked): Promise<number> =>
  (
    await one<{ count: number }>(
      db,
      sql`
      select count(distinct node) from traffic_losses
      where node = any(${nodes}) and at >= ${rfc3339(since)}::timestamptz - interval '1 hour' and at < ${rfc3339(until)}`,
    )
  ).count
