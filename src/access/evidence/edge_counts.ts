import { deleteInBatches } from '../../db/batches.ts'
import { type Db, run } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { rfc3339 } from '../../kernel/clock.ts'
import type { Uuid } from '../../kernel/ids.ts'
import type { Outcome } from './counts.ts'

/** How often an address was refused, or would have been, at a TCP edge or a route within an hour. */
export type EdgeCount = {
  edgeId: Uuid
  sourceIp: string
  outcome: Outcome
  /** Its own `ip_restriction` module decided, not a restriction of the account. */
  byModule: boolean
  /** Milliseconds of the hour's beginning. */
  hour: number
  count: number
  lastAt: number
}

/** Adds to the existing counts. Skips edges and routes that have been deleted. */
export const addEdgeCounts = (db: Db, counts: readonly EdgeCount[]): Promise<void> =>
  run(
    db,
    // In order, and the edge held before its counts, for the reasons of addCounts() in counts.ts.
    sql`
    insert into edge_counts as c (account_id, edge_id, hour, source_ip, outcome, by_module, count, last_at)
    select e.account_id, s.* from unnest(
        ${counts.map((count) => count.edgeId)}::uuid[],
        ${counts.map((count) => rfc3339(count.hour))}::timestamptz[], ${counts.map((count) => count.sourceIp)}::inet[],
        ${counts.map((count) => count.outcome)}::text[], ${counts.map((count) => count.byModule)}::boolean[],
        ${counts.map((count) => count.count)}::bigint[], ${counts.map((count) => rfc3339(count.lastAt))}::timestamptz[]
      ) as s (edge_id, hour, source_ip, outcome, by_module, count, last_at)
      join edges e on e.id = s.edge_id
    order by 1, 2, 3, 4, 5, 6
    for key share of e
    on conflict (account_id, edge_id, hour, source_ip, outcome, by_module) do update set
      count = c.count + excluded.count, last_at = greatest(c.last_at, excluded.last_at)`,
  )

/** Addresses are personal data: what is older than the configured time goes. */
export const deleteEdgeCountsBefore = (db: Db, moment: number): Promise<number> =>
  deleteInBatches(db, sql`edge_counts`, sql`hour < ${rfc3339(moment)}`)
