import type { RestrictionType } from '../../access/policies.ts'
import { type Db, many } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import type { Caller } from '../../identity/caller.ts'
import { rfc3339 } from '../../kernel/clock.ts'
import type { Uuid } from '../../kernel/ids.ts'

type HourRow = { hour: string; type: RestrictionType; refused: number; warned: number }

/** By hour and traffic type. Omits hours without activity. */
export const activityByHour = (db: Db, { accountId }: Caller, since: number) =>
  many<HourRow>(
    db,
    // Refusals by modules occur only in the counts of edges; restrictions also have their own counts.
    sql`
    select hour, type,
      coalesce(sum(count) filter (where outcome = 'refused'), 0)::bigint as refused,
      coalesce(sum(count) filter (where outcome = 'warned'), 0)::bigint as warned
    from (
      select h.hour, r.type, h.outcome, h.count
      from ip_restriction_hours h
        join ip_restrictions r on r.account_id = h.account_id and r.id = h.ip_restriction_id
      where h.account_id = ${accountId} and h.hour >= ${rfc3339(since)}
      union all
      select hour, 'endpoints', outcome, count from edge_hours
      where account_id = ${accountId} and by_module and hour >= ${rfc3339(since)}) counted
    group by hour, type`,
  )

export type EdgeActivityRow = {
  id: Uuid
  kind: 'tcp' | 'route'
  parent_id: Uuid | null
  refused: number
  refused_by_module: number
  warned: number
  last_at: string
}

/** Edges and routes with the most refusals and warnings. */
export const activityByEdge = (db: Db, { accountId }: Caller, since: number, limit: number) =>
  many<EdgeActivityRow>(
    db,
    sql`
    select e.id, e.kind, e.parent_id,
      coalesce(sum(h.count) filter (where h.outcome = 'refused'), 0)::bigint as refused,
      coalesce(sum(h.count) filter (where h.outcome = 'refused' and h.by_module), 0)::bigint as refused_by_module,
      coalesce(sum(h.count) filter (where h.outcome = 'warned'), 0)::bigint as warned,
      max(h.last_at) as last_at
    from edge_hours h join edges e on e.account_id = h.account_id and e.id = h.edge_id
    where h.account_id = ${accountId} and h.hour >= ${rfc3339(since)}
    group by e.id, e.kind, e.parent_id
    order by refused desc, warned desc, e.id desc
    limit ${limit}`,
  )
