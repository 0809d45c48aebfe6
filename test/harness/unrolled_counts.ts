import { type Db, many } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { rfc3339 } from '../../src/kernel/clock.ts'
import type { Uuid } from '../../src/kernel/ids.ts'

type Row = Record<string, unknown>

/** What reports show, computed from every count: slow, and plainly right. */
export const unrolled = {
  byHour: (db: Db, accountId: Uuid, since: number) =>
    many<Row>(
      db,
      sql`
      select hour, type, coalesce(sum(count) filter (where outcome = 'refused'), 0)::bigint as refused,
        coalesce(sum(count) filter (where outcome = 'warned'), 0)::bigint as warned
      from (
        select c.hour, r.type, c.outcome, c.count
        from ip_restrictions r join ip_restriction_counts c on c.account_id = r.account_id and c.ip_restriction_id = r.id
        where r.account_id = ${accountId} and c.hour >= ${rfc3339(since)}
        union all
        select hour, 'endpoints', outcome, count from edge_counts
        where account_id = ${accountId} and by_module and hour >= ${rfc3339(since)}) counted
      group by hour, type order by hour, type`,
    ),
  byEdge: (db: Db, accountId: Uuid, since: number) =>
    many<Row>(
      db,
      sql`
      select e.id, e.kind, e.parent_id, coalesce(sum(c.count) filter (where c.outcome = 'refused'), 0)::bigint as refused,
        coalesce(sum(c.count) filter (where c.outcome = 'refused' and c.by_module), 0)::bigint as refused_by_module,
        coalesce(sum(c.count) filter (where c.outcome = 'warned'), 0)::bigint as warned, max(c.last_at) as last_at
      from edge_counts c join edges e on e.account_id = c.account_id and e.id = c.edge_id
      where c.account_id = ${accountId} and c.hour >= ${rfc3339(since)}
      group by e.id, e.kind, e.parent_id
      order by refused desc, warned desc, e.id desc`,
    ),
  warnings: (db: Db, restrictionId: Uuid) =>
    many<Row>(
      db,
      sql`
      select host(source_ip) as source_ip, sum(count)::bigint as count, max(last_at) as last_at,
        (array_agg(last_api_key_id order by last_at desc))[1] as last_api_key_id
      from ip_restriction_counts where ip_restriction_id = ${restrictionId} and outcome = 'warned'
      group by ip_restriction_counts.source_ip order by max(last_at) desc, ip_restriction_counts.source_ip desc`,
    ),
  lastSeen: (db: Db, accountId: Uuid, type: string, since: number, limit: number) =>
    many<Row>(
      db,
      sql`
      select host(source_ip) as ip, max(seen_at) as last_seen_at from (
        select ip as source_ip, last_seen_at as seen_at from seen_addresses
        where account_id = ${accountId} and type = ${type} and type <> 'endpoints' and last_seen_at >= ${rfc3339(since)}
        union all
        select ip, allowed_at from address_outcomes
        where account_id = ${accountId} and type = ${type} and type = 'endpoints' and allowed_at >= ${rfc3339(since)}
        union all
        select c.source_ip, c.last_at
        from ip_restrictions r join ip_restriction_counts c on c.account_id = r.account_id and c.ip_restriction_id = r.id
        where r.account_id = ${accountId} and r.type = ${type} and c.hour >= ${rfc3339(since)}) seen
      group by source_ip order by max(seen_at) desc, source_ip limit ${limit}`,
    ),
  lastSeenAtModules: (db: Db, accountId: Uuid, policyId: Uuid, since: number, limit: number) =>
    many<Row>(
      db,
      sql`
      select host(c.source_ip) as ip, max(c.last_at) as last_seen_at, c.edge_id
      from edge_module_policies p
        join edge_modules m on m.account_id = p.account_id and m.edge_id = p.edge_id and m.module = p.module
        join edge_counts c on c.account_id = p.account_id and c.edge_id = p.edge_id
      where p.account_id = ${accountId} and p.ip_policy_id = ${policyId} and m.enabled and c.hour >= ${rfc3339(since)}
      group by c.source_ip, c.edge_id order by max(c.last_at) desc, c.source_ip, c.edge_id limit ${limit}`,
    ),
}
