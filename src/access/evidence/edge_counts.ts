import { deleteInBatches } from '../../db/batches.ts'
import { type Db, many, run } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import type { Caller } from '../../identity/caller.ts'
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
    // In order, and the edge held before its counts, for the reasons of addCounts() in ip_restrictions/counts.ts.
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

/** The addresses that were refused or warned of where a policy is part of the `ip_restriction` module, the latest first. */
export const listAddressesAtModules = (
  db: Db,
  { accountId }: Pick<Caller, 'accountId'>,
  policyId: Uuid,
  since: number,
  limit: number,
) =>
  many<{ ip: string; last_seen_at: string; edge_id: Uuid }>(
    db,
    sql`
    select host(c.source_ip) as ip, max(c.last_at) as last_seen_at, c.edge_id
    from edge_module_policies p
      join edge_modules m on m.account_id = p.account_id and m.edge_id = p.edge_id and m.module = p.module
      join edge_counts c on c.account_id = p.account_id and c.edge_id = p.edge_id
    where p.account_id = ${accountId} and p.ip_policy_id = ${policyId} and m.enabled and c.hour >= ${rfc3339(since)}
    group by c.source_ip, c.edge_id
    order by max(c.last_at) desc, c.source_ip, c.edge_id limit ${limit}`,
  )

/** Addresses are personal data: what is older than the configured time goes. */
export const deleteEdgeCountsBefore = (db: Db, moment: number): Promise<number> =>
  deleteInBatches(db, sql`edge_counts`, sql`hour < ${rfc3339(moment)}`)
