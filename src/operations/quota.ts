import { type Db, later, many, run } from '../db/pool.ts'
import { type SqlFragment, sql } from '../db/sql.ts'
import type { Caller } from '../identity/caller.ts'
import { toId, type Uuid } from '../kernel/ids.ts'
import type { QuotaKind, Quotas } from '../kernel/quotas.ts'

type Account = Pick<Caller, 'accountId'>
type Claim = { readonly kind: QuotaKind; readonly added: number; readonly quotas: Quotas }

const check = ({ accountId }: Account, { kind, added, quotas }: Claim, inTurn: boolean): SqlFragment =>
  sql`select refuse_beyond_quota(${accountId}, ${kind}, ${added}, ${quotas[kind]}, ${inTurn})`

/**
 * Two statements that fail over quota. The first runs before the change, so that a refused request writes nothing. The
 * second, after it, is decisive: from there to the end of the transaction, additions to an account are serialized.
 * Serializing earlier would hold that lock while the change waits for others, in any order.
 */
export const quotaChecks = (account: Account, claim: Claim) => ({
  before: check(account, claim, false),
  after: check(account, claim, true),
})

/** Runs `add`, which adds to what an account stores. Fails with ERR_QUOTA, possibly only at commit. */
export async function withinQuota<Result>(
  tx: Db,
  account: Account,
  claim: Claim,
  add: () => Promise<Result>,
): Promise<Result> {
  if (claim.added <= 0) return add()
  const { before, after } = quotaChecks(account, claim)
  await later(tx, before)
  const result = await add()
  await later(tx, after)
  return result
}

export type QuotaShare = { readonly account: string; readonly kind: string; readonly share: number }

/** The accounts closest to their quotas, from `least` on. Excludes TCP ports. */
export async function largestShares(db: Db, quotas: Quotas, least: number, limit: number): Promise<QuotaShare[]> {
  const rows = await many<{ account_id: Uuid; kind: string; share: number }>(
    db,
    sql`
    select account_id, kind, share from (
      select account_id, kind, sum(used)::float8 / greatest(quota_of(account_id, kind, byDefault.quota::bigint), 1) as share
      from account_usage join json_each_text(${JSON.stringify(quotas)}::json) as byDefault (kind, quota) using (kind)
      group by account_id, kind, byDefault.quota) shares
    where share >= ${least} order by share desc limit ${limit}`,
  )
  return rows.map(({ account_id, kind, share }) => ({ account: toId('ac', account_id), kind, share }))
}

/** Merges usage into one row per account and kind. Leaves concurrently added rows alone. */
export const addUpUsage = (db: Db): Promise<void> =>
  run(
    db,
    sql`
    with many as (select account_id, kind from account_usage group by account_id, kind having count(*) > 1),
    gone as (delete from account_usage u using many where u.account_id = many.account_id and u.kind = many.kind
      returning u.account_id, u.kind, u.used)
    insert into account_usage (account_id, kind, used) select account_id, kind, sum(used) from gone group by account_id, kind`,
  )
