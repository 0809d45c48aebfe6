import { type Db, one, run } from '../../db/pool.ts'
import { nothing, sql } from '../../db/sql.ts'
import type { Caller } from '../../identity/caller.ts'
import type { ApprovalKind } from '../../kernel/approval.ts'
import type { Uuid } from '../../kernel/ids.ts'
import { holdersOf } from '../api_keys/store.ts'

type Account = Pick<Caller, 'accountId'>

export const findRequiredFor = async (db: Db, { accountId }: Account, lock: boolean): Promise<ApprovalKind[]> =>
  (
    await one<{ kinds: ApprovalKind[] }>(
      db,
      sql`select approval_required_for as kinds from accounts where id = ${accountId} ${lock ? sql`for update` : nothing}`,
    )
  ).kinds

export const setRequiredFor = (tx: Db, { accountId }: Account, kinds: readonly ApprovalKind[]): Promise<void> =>
  run(tx, sql`update accounts set approval_required_for = ${kinds}::text[] where id = ${accountId}`)

/**
 * Whether an active admin could approve changes of these people independently: with an identity or a key that none of
 * them made.
 */
export const hasIndependentAdmin = async (db: Db, { accountId }: Account, people: readonly Uuid[]): Promise<boolean> =>
  (
    await one<{ has: boolean }>(
      db,
      sql`
      select exists (
        select from principals p
        where p.account_id = ${accountId} and p.kind = 'user' and p.role = 'admin' and p.active
          and p.id <> all(${people}::uuid[])
          and (
            exists (
              select from identities i
              where i.account_id = p.account_id and i.owner_id = p.id and not i.issuers && ${people}::uuid[])
            or exists (
              select from api_keys own
              where own.account_id = p.account_id and own.owner_id = p.id
                and (own.expires_at is null or own.expires_at > statement_timestamp())
                and not ${holdersOf(accountId, sql`own.id`)} && ${people}::uuid[])
          )
      ) as has`,
    )
  ).has
