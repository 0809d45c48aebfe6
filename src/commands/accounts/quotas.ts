import { type DbPool, later, many, maybeOne } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { transaction } from '../../db/transaction.ts'
import { newId, toId, type Uuid } from '../../kernel/ids.ts'
import type { QuotaKind } from '../../kernel/quotas.ts'
import { recordChange } from '../../operations/audit.ts'
import { findAccount } from './find.ts'

/** Null restores the default of all accounts. Resolves to undefined if there is no such account. */
export async function setQuota(db: DbPool, nameOrId: string, kind: QuotaKind, limit: number | null) {
  const account = await findAccount(db, nameOrId)
  if (!account) return undefined
  const accountId = account.id
  return transaction(db, async (tx) => {
    const before = await maybeOne<{ limit: number }>(
      tx,
      sql`select quota as limit from account_quotas where account_id = ${accountId} and kind = ${kind} for update`,
    )
    await later(
      tx,
      limit === null
        ? sql`delete from account_quotas where account_id = ${accountId} and kind = ${kind}`
        : sql`
        insert into account_quotas (account_id, kind, quota) values (${accountId}, ${kind}, ${limit})
        on conflict (account_id, kind) do update set quota = excluded.quota`,
    )
    const origin = { accountId, operation: 'server.set_quota', operationId: newId('op') }
    await recordChange(tx, origin, {
      resourceId: toId('ac', accountId),
      before: { kind, limit: before?.limit ?? null },
      after: { kind, limit },
    })
    return { account_id: toId('ac', accountId), name: account.name, kind, limit }
  })
}

export async function listQuotas(db: DbPool) {
  const rows = await many<{ id: Uuid; name: string; kind: QuotaKind; limit: number }>(
    db,
    sql`
    select a.id, a.name, q.kind, q.quota as limit
    from account_quotas q join accounts a on a.id = q.account_id order by a.name, q.kind`,
  )
  return rows.map(({ id, ...rest }) => ({ account_id: toId('ac', id), ...rest }))
}
