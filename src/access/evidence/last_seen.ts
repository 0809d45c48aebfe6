import { type Db, many } from '../../db/pool.ts'
import { nothing, type SqlFragment, sql } from '../../db/sql.ts'
import type { Caller } from '../../identity/caller.ts'
import { rfc3339 } from '../../kernel/clock.ts'
import type { Uuid } from '../../kernel/ids.ts'
import type { RestrictionType } from '../policies.ts'

/** An address, and when it last came or was refused. */
export type LastSeen = { ip: string; last_seen_at: string }

const hourMs = 60 * 60 * 1_000
/** Counts are by the hour: those of the hour in which the time begins are left out. */
const firstHour = (since: number): string => rfc3339(Math.ceil(since / hourMs) * hourMs)

/**
 * Each address once, the latest first. `rows` have `source_ip`, `seen_at` and, if asked for, `edge_id`. Each part of them may
 * end after the latest `limit` of its own: what comes after those cannot be among the latest of all.
 */
const listLatest = <Row extends LastSeen>(db: Db, rows: SqlFragment, limit: number, edgeId: SqlFragment = nothing) =>
  many<Row>(
    db,
    sql`
    select host(source_ip) as ip, max(seen_at) as last_seen_at ${edgeId}
    from (${rows}) seen
    group by source_ip ${edgeId}
    order by max(seen_at) desc, source_ip ${edgeId} limit ${limit}`,
  )

/** Every address that met a restriction of this type: let in, refused or warned of. */
export const listLastSeen = (
  db: Db,
  { accountId }: Pick<Caller, 'accountId'>,
  type: RestrictionType,
  since: number,
  limit: number,
) =>
  listLatest(
    db,
    sql`
    select ip as source_ip, last_seen_at as seen_at from seen_addresses
    where account_id = ${accountId} and type = ${type} and last_seen_at >= ${rfc3339(since)}
    union all
    select a.source_ip, a.last_at
    from ip_restrictions r
      cross join unnest(array['refused', 'warned']) as o (outcome)
      cross join lateral (
        select source_ip, last_at from ip_restriction_addresses
        where account_id = ${accountId} and ip_restriction_id = r.id and outcome = o.outcome
          and last_at >= ${firstHour(since)}
        order by last_at desc, source_ip limit ${limit}) a
    where r.account_id = ${accountId} and r.type = ${type}`,
    limit,
  )

/** Those refused or warned of where a policy is part of the `ip_restriction` module, by edge or route. */
export const listLastSeenAtModules = (
  db: Db,
  { accountId }: Pick<Caller, 'accountId'>,
  policyId: Uuid,
  since: number,
  limit: number,
) =>
  listLatest<LastSeen & { edge_id: Uuid }>(
    db,
    sql`
    select a.source_ip, a.last_at as seen_at, p.edge_id
    from edge_module_policies p
      join edge_modules m on m.account_id = p.account_id and m.edge_id = p.edge_id and m.module = p.module
      cross join lateral (
        select source_ip, last_at from edge_addresses
        where account_id = ${accountId} and edge_id = p.edge_id and last_at >= ${firstHour(since)}
        order by last_at desc, source_ip limit ${limit}) a
    where p.account_id = ${accountId} and p.ip_policy_id = ${policyId} and m.enabled`,
    limit,
    sql`, edge_id`,
  )
