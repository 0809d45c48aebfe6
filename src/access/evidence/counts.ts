import { deleteInBatches } from '../../db/batches.ts'
import { type Db, many, run } from '../../db/pool.ts'
import { nothing, type SqlFragment, sql } from '../../db/sql.ts'
import type { Caller } from '../../identity/caller.ts'
import { rfc3339 } from '../../kernel/clock.ts'
import { type Id, toUuid, type Uuid } from '../../kernel/ids.ts'
import { canonicalAddress } from '../../kernel/ip/address.ts'

export type Outcome = 'refused' | 'warned'
/** An address that an unenforced restriction would have refused. */
export type Warning = { source_ip: string; count: number; last_at: string; last_api_key_id: string | null }
/** How often a restriction refused, or would have refused, an address within an hour. */
export type Count = {
  restrictionId: Uuid
  sourceIp: string
  outcome: Outcome
  /** Milliseconds of the hour's beginning. */
  hour: number
  count: number
  lastAt: number
  lastApiKeyId: string | null
}

/** Adds to the existing counts. Skips restrictions that have been deleted. */
export const addCounts = (db: Db, counts: readonly Count[]): Promise<void> =>
  run(
    db,
    // Sorted, so that two processes that add to the same rows take them in the same order. Each restriction is held
    // before its counts, as when it is deleted and takes them along: the other order failed, or was a deadlock.
    sql`
    insert into ip_restriction_counts as c
      (account_id, ip_restriction_id, hour, source_ip, outcome, count, last_at, last_api_key_id)
    select r.account_id, s.* from unnest(
        ${counts.map((count) => count.restrictionId)}::uuid[],
        ${counts.map((count) => rfc3339(count.hour))}::timestamptz[], ${counts.map((count) => count.sourceIp)}::inet[],
        ${counts.map((count) => count.outcome)}::text[], ${counts.map((count) => count.count)}::bigint[],
        ${counts.map((count) => rfc3339(count.lastAt))}::timestamptz[], ${counts.map((count) => count.lastApiKeyId)}::text[]
      ) as s (ip_restriction_id, hour, source_ip, outcome, count, last_at, last_api_key_id)
      join ip_restrictions r on r.id = s.ip_restriction_id
    order by 1, 2, 3, 4, 5
    for key share of r
    on conflict (account_id, ip_restriction_id, hour, source_ip, outcome) do update set
      count = c.count + excluded.count,
      last_api_key_id = case when excluded.last_at >= c.last_at then excluded.last_api_key_id else c.last_api_key_id end,
      last_at = greatest(c.last_at, excluded.last_at)`,
  )

/** One row for each address, the one seen latest first. `before` is where the page before ended. */
export const listWarnings = async (
  db: Db,
  { accountId }: Caller,
  id: Id<'ipx'>,
  limit: number,
  before?: Pick<Warning, 'last_at' | 'source_ip'>,
): Promise<Warning[]> => {
  const warned = (alias: SqlFragment) => sql`
    ${alias}.account_id = ${accountId} and ${alias}.ip_restriction_id = ${toUuid(id)} and ${alias}.outcome = 'warned'`
  // Every `order by` in here and every range of one address names the index to use, by being free of a sort with that one
  // only: how many rows a restriction has is a guess, and a guess of few would make another index look as good.
  const ofAddress = (ip: SqlFragment) => sql`
    (select hour, count from ip_restriction_counts a
     where ${warned(sql`a`)} and a.source_ip >= ${ip} and a.source_ip <= ${ip}
     order by a.source_ip desc, a.hour desc offset 0) of_address`
  const latest = (since: SqlFragment) => sql`
    (select c.hour, c.source_ip, c.last_at, c.last_api_key_id from ip_restriction_counts c
     where ${warned(sql`c`)} ${since}
       ${before ? sql`and c.hour <= date_trunc('hour', ${before.last_at}::timestamptz)` : nothing}
     order by c.hour desc offset 0) c
    where c.hour = (select hour from ${ofAddress(sql`c.source_ip`)} limit 1)
      ${before ? sql`and (c.last_at, c.source_ip) < (${before.last_at}::timestamptz, ${before.source_ip}::inet)` : nothing}`
  const rows = await many<Warning>(
    db,
    // From the latest hour backwards, until the page is full: adding up a month of addresses, only to show a hundred, took
    // seconds. An address is shown by its latest hour.
    sql`
    with reached as (select min(hour) as hour from (select c.hour from ${latest(nothing)} limit ${limit}) page),
    page as (
      select c.source_ip, c.last_at, c.last_api_key_id from ${latest(sql`and c.hour >= (select hour from reached)`)}
      order by c.last_at desc, c.source_ip desc limit ${limit})
    select host(source_ip) as source_ip,
      (select sum(count)::bigint from ${ofAddress(sql`page.source_ip`)}) as count, last_at, last_api_key_id
    from page
    order by page.last_at desc, page.source_ip desc`,
  )
  return rows.map((row) => ({ ...row, source_ip: canonicalAddress(row.source_ip) }))
}

/** Addresses are personal data: what is older than the configured time goes. */
export const deleteCountsBefore = (db: Db, moment: number): Promise<number> =>
  deleteInBatches(db, sql`ip_restriction_counts`, sql`hour < ${rfc3339(moment)}`)
