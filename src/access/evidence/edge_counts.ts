import { type Db, run } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { rfc3339 } from '../../kernel/clock.ts'
import type { Uuid } from '../../kernel/ids.ts'
import type { Outcome } from './counts.ts'

/** How often a TCP edge or a route refused an address within an hour, or would have refused it. */
export type EdgeCount = {
  edgeId: Uuid
  sourceIp: string
  outcome: Outcome
  /** True if the edge's own `ip_restriction` module decided, false for a restriction of the account. */
  byModule: boolean
  /** Start of the hour in milliseconds. */
  hour: number
  count: number
  lastAt: number
}

/** Also updates the sums by hour and by address. Skips deleted edges and routes. */
export const addEdgeCounts = (db: Db, counts: readonly EdgeCount[]): Promise<void> =>
  run(
    db,
    // Sorted, and the edge is locked before its counts; addCounts() in counts.ts gives the reasons.
    sql`
    with held as materialized (
      select account_id, id from edges where id = any(${[...new Set(counts.map((count) => count.edgeId))]}::uuid[])
      order by id for key share
    ), counted as materialized (
      select held.account_id, s.* from unnest(
          ${counts.map((count) => count.edgeId)}::uuid[],
          ${counts.map((count) => rfc3339(count.hour))}::timestamptz(0)[], ${counts.map((count) => count.sourceIp)}::inet[],
          ${counts.map((count) => count.outcome)}::text[], ${counts.map((count) => count.byModule)}::boolean[],
          ${counts.map((count) => count.count)}::bigint[], ${counts.map((count) => rfc3339(count.lastAt))}::timestamptz[]
        ) as s (edge_id, hour, source_ip, outcome, by_module, count, last_at)
        join held on held.id = s.edge_id
    ), added as (
      insert into edge_counts as c (account_id, edge_id, hour, source_ip, outcome, by_module, count, last_at)
      select account_id, edge_id, hour, source_ip, outcome, by_module, count, last_at from counted
      order by 1, 2, 3, 4, 5, 6
      on conflict (account_id, edge_id, hour, source_ip, outcome, by_module) do update set
        count = c.count + excluded.count, last_at = greatest(c.last_at, excluded.last_at)
      returning 1
    ), by_hour as (
      insert into edge_hours as h (account_id, hour, edge_id, outcome, by_module, count, last_at)
      select account_id, hour, edge_id, outcome, by_module, sum(count), max(last_at) from counted
      where (select count(*) from added) >= 0
      group by 1, 2, 3, 4, 5
      order by 1, 2, 3, 4, 5
      on conflict (account_id, hour, edge_id, outcome, by_module) do update set
        count = h.count + excluded.count, last_at = greatest(h.last_at, excluded.last_at)
      returning 1
    )
    insert into edge_addresses as a (account_id, edge_id, source_ip, count, last_at)
    select account_id, edge_id, source_ip, sum(count), max(last_at) from counted
    where (select count(*) from by_hour) >= 0
    group by 1, 2, 3
    order by 1, 2, 3
    on conflict (account_id, edge_id, source_ip) do update set
      count = a.count + excluded.count, last_at = greatest(a.last_at, excluded.last_at)`,
  )
