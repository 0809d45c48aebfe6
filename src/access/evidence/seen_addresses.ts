import { deleteInBatches } from '../../db/batches.ts'
import { type Db, run } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { rfc3339 } from '../../kernel/clock.ts'
import type { Uuid } from '../../kernel/ids.ts'
import type { RestrictionType } from '../policies.ts'

/** An address that used an account, and in which hour. */
export type SeenAddress = {
  accountId: Uuid
  type: RestrictionType
  sourceIp: string
  /** Start of the hour in milliseconds. */
  hour: number
}

/** An IPv6 customer has 2^64 addresses: without a bound one account could fill the table. */
const keptPerAccount = 10_000
/** Eight days cover a full week, asked for at any time of day. */
export const seenForDays = 8

/** Keeps the newest 10,000 addresses of each account and type. */
export async function addSeenAddresses(db: Db, seen: readonly SeenAddress[]): Promise<void> {
  await run(
    db,
    // Sorted: two processes that write the same rows must lock them in the same order.
    sql`
    insert into seen_addresses as known (account_id, type, ip, first_seen_at, last_seen_at)
    select s.account_id, s.type, s.ip, s.hour, s.hour from unnest(
      ${seen.map(({ accountId }) => accountId)}::uuid[], ${seen.map(({ type }) => type)}::text[],
      ${seen.map(({ sourceIp }) => sourceIp)}::inet[], ${seen.map(({ hour }) => rfc3339(hour))}::timestamptz[]
    ) as s (account_id, type, ip, hour)
    order by 1, 2, 3
    on conflict (account_id, type, ip) do update set last_seen_at = excluded.last_seen_at
      where excluded.last_seen_at > known.last_seen_at`,
  )
  const accounts = new Map(seen.map(({ accountId, type }) => [`${accountId} ${type}`, { accountId, type }]))
  await run(
    db,
    // By ctid, for which PostgreSQL needs no statistics: a plan made for a small table was a bad one for a large table.
    // Skips rows that another process has locked, because waiting for them could deadlock.
    sql`
    delete from seen_addresses where ctid = any(array(
      select ctid from seen_addresses where ctid = any(array(
        select excess.ctid
        from unnest(
            ${[...accounts.values()].map(({ accountId }) => accountId)}::uuid[],
            ${[...accounts.values()].map(({ type }) => type)}::text[]
          ) as a (account_id, type)
          cross join lateral (
            select s.ctid from seen_addresses s
            where s.account_id = a.account_id and s.type = a.type
            order by s.last_seen_at desc, s.ip
            offset ${keptPerAccount}
          ) as excess
      ))
      for update skip locked
    ))`,
  )
}

export const deleteSeenAddressesBefore = (db: Db, moment: number): Promise<number> =>
  deleteInBatches(db, sql`seen_addresses`, sql`last_seen_at < ${rfc3339(moment)}`)
