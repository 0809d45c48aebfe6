import { type DbPool, many, maybeOne, run } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { transaction } from '../../db/transaction.ts'
import { newId, toId, type Uuid } from '../../kernel/ids.ts'
import { recordChange } from '../../operations/audit.ts'
import { findAccount } from './find.ts'

/** Null restores the default of all accounts. Resolves to undefined if there is no such account. */
export async function setRateLimit(db: DbPool, nameOrId: string, requestsPerMinute: number | null) {
  const account = await findAccount(db, nameOrId)
  if (!account) return undefined
  const accountId = account.id
  return transaction(db, async (tx) => {
    const before = await maybeOne<{ requests_per_minute: number | null }>(
      tx,
      sql`select requests_per_minute from accounts where id = ${accountId} for update`,
    )
    const after = { requests_per_minute: requestsPerMinute }
    await run(tx, sql`update accounts set requests_per_minute = ${requestsPerMinute} where id = ${accountId}`)
    const origin = { accountId, operation: 'server.set_rate_limit', operationId: newId('op') }
    await recordChange(tx, origin, { resourceId: toId('ac', accountId), before: before ?? null, after })
    return { account_id: toId('ac', accountId), name: account.name, ...after }
  })
}

export async function listRateLimits(db: DbPool) {
  const rows = await many<{ id: Uuid; name: string; requests_per_minute: number }>(
    db,
    sql`select id, name, requests_per_minute from accounts where requests_per_minute is not null order by name`,
  )
  return rows.map(({ id, ...rest }) => ({ account_id: toId('ac', id), ...rest }))
}
