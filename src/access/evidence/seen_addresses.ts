import { deleteInBatches } from '../../db/batches.ts'
import { type Db, run } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { rfc3339 } from '../../kernel/clock.ts'
import type { Uuid } from '../../kernel/ids.ts'
import type { RestrictionType } from '../policies.ts'

/** An address from which an account was used, and the hour in which that was. */
export type SeenAddress = {
  accountId: Uuid
  type: RestrictionType
  sourceIp: string
  /** Milliseconds of the hour's beginning. */
  hour: number
}

/** An IPv6 customer has 2^64 addresses: without a bound one account could fill the table. */
const keptPerAccount = 10_000
/** A week can be asked for at any time of day. */
export const seenForDays = 8

/** Adds what was seen, and keeps the newest 10,000 of each account and type. */
export async function addSeenAddresses(db: Db, seen: readonly SeenAddress[]): Promise<void> {
  await run(
    db,
    // Sorted, so that two processes that write the same rows take them in the same order.
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
    // By their places, which a plan made for a small table cannot get wrong. What another process is writing at this
    // moment is left to the next time: waiting for it could be a deadlock.
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
