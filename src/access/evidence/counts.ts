import { type Db, many, run } from '../../db/pool.ts'
import { nothing, sql } from '../../db/sql.ts'
import type { Caller } from '../../identity/caller.ts'
import { rfc3339 } from '../../kernel/clock.ts'
import { type Id, toUuid, type Uuid } from '../../kernel/ids.ts'
import { canonicalAddress } from '../../kernel/ip/address.ts'

export type Outcome = 'refused' | 'warned'
/** An address that an unenforced restriction would have refused. */
export type Warning = { source_ip: string; count: number; last_at: string; last_api_key_id: string | null }
/** How often a restriction refused an address within an hour, or would have refused it. */
export type Count = {
  restrictionId: Uuid
  sourceIp: string
  outcome: Outcome
  /** Start of the hour in milliseconds. */
  hour: number
  count: number
  lastAt: number
  lastApiKeyId: string | null
}

/** Also updates the sums by hour and by address. Skips deleted restrictions. */
export const addCounts = (db: Db, counts: readonly Count[]): Promise<void> =>
  run(
    db,
    // Sorted and table by table, so that two processes lock the same rows in the same order. The restriction is locked
    // before its counts, as in a delete that cascades to them; the reverse order deadlocked.
    sql`
    with held as materialized (
      select account_id, id from ip_restrictions
      where id = any(${[...new Set(counts.map((count) => count.restrictionId))]}::uuid[])
      order by id for key share
    ), counted as materialized (
      select held.account_id, s.* from unnest(
          ${counts.map((count) => count.restrictionId)}::uuid[],
          ${counts.map((count) => rfc3339(count.hour))}::timestamptz(0)[], ${counts.map((count) => count.sourceIp)}::inet[],
          ${counts.map((count) => count.outcome)}::text[], ${counts.map((count) => count.count)}::bigint[],
          ${counts.map((count) => rfc3339(count.lastAt))}::timestamptz[], ${counts.map((count) => count.lastApiKeyId)}::text[]
        ) as s (ip_restriction_id, hour, source_ip, outcome, count, last_at, last_api_key_id)
        join held on held.id = s.ip_restriction_id
    ), added as (
      insert into ip_restriction_counts as c
        (account_id, ip_restriction_id, hour, source_ip, outcome, count, last_at, last_api_key_id)
      select account_id, ip_restriction_id, hour, source_ip, outcome, count, last_at, last_api_key_id from counted
      order by 1, 2, 3, 4, 5
      on conflict (account_id, ip_restriction_id, hour, source_ip, outcome) do update set
        count = c.count + excluded.count,
        last_api_key_id = case when excluded.last_at >= c.last_at then excluded.last_api_key_id else c.last_api_key_id end,
        last_at = greatest(c.last_at, excluded.last_at)
      returning 1
    ), by_hour as (
      insert into ip_restriction_hours as h (account_id, hour, ip_restriction_id, outcome, count)
      select account_id, hour, ip_restriction_id, outcome, sum(count) from counted
      where (select count(*) from added) >= 0
      group by 1, 2, 3, 4
      order by 1, 2, 3, 4
      on conflict (account_id, hour, ip_restriction_id, outcome) do update set count = h.count + excluded.count
      returning 1
    )
    insert into ip_restriction_addresses as a
      (account_id, ip_restriction_id, outcome, source_ip, count, last_at, last_api_key_id)
    select account_id, ip_restriction_id, outcome, source_ip, sum(count), max(last_at),
      (array_agg(last_api_key_id order by last_at desc))[1]
    from counted
    where (select count(*) from by_hour) >= 0
    group by 1, 2, 3, 4
    order by 1, 2, 3, 4
    on conflict (account_id, ip_restriction_id, outcome, source_ip) do update set
      count = a.count + excluded.count,
      last_api_key_id = case when excluded.last_at >= a.last_at then excluded.last_api_key_id else a.last_api_key_id end,
      last_at = greatest(a.last_at, excluded.last_at)`,
  )

/** One row per address, latest first. `before` is the last row of the previous page. */
export const listWarnings = async (
  db: Db,
  { accountId }: Caller,
  id: Id<'ipx'>,
  limit: number,
  before?: Pick<Warning, 'last_at' | 'source_ip'>,
): Promise<Warning[]> => {
  const rows = await many<Warning>(
    db,
    sql`
    select host(source_ip) as source_ip, count, last_at, last_api_key_id from ip_restriction_addresses
    where account_id = ${accountId} and ip_restriction_id = ${toUuid(id)} and outcome = 'warned'
      ${before ? sql`and (last_at, source_ip) < (${before.last_at}::timestamptz, ${before.source_ip}::inet)` : nothing}
    order by last_at desc, ip_restriction_addresses.source_ip desc
    limit ${limit}`,
  )
  return rows.map((row) => ({ ...row, source_ip: canonicalAddress(row.source_ip) }))
}
