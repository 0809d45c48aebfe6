import type { DbPool } from '../../db/pool.ts'
import { transaction } from '../../db/transaction.ts'
import { ownersRights } from '../../identity/grant.ts'
import { hashToken, newToken } from '../../identity/token.ts'
import { newId, toId } from '../../kernel/ids.ts'
import { recordChange } from '../../operations/audit.ts'
import { insertApiKey } from '../../resources/api_keys/store.ts'
import { stableApiKeyFields, toApiKey } from '../../resources/api_keys/view.ts'
import { lockActiveAdmins } from '../../resources/principals/store.ts'
import { findAccount } from './find.ts'

/** Creates a key for the account's first active admin, who always exists. Undefined if there is no such account. */
export async function recoverAccount(db: DbPool, nameOrId: string, publicUrl: string) {
  const account = await findAccount(db, nameOrId)
  if (!account) return undefined
  const caller = { accountId: account.id }
  const token = newToken()
  return transaction(db, async (tx) => {
    const [admin] = await lockActiveAdmins(tx, caller)
    if (!admin) throw new Error(`account ${account.name} has no active admin, which no operation allows`)
    const ownerId = toId('usr', admin.id)
    const row = await insertApiKey(tx, caller, {
      ownerId,
      tokenHash: hashToken(token),
      description: 'recovery',
      metadata: null,
      expires_at: null,
      grant: ownersRights,
      createdBy: null,
    })
    if (!row) throw new Error('the admin that was just locked is missing')
    const key = stableApiKeyFields(toApiKey(row, (path) => publicUrl + path))
    const origin = { ...caller, operation: 'server.recover', operationId: newId('op') }
    await recordChange(tx, origin, { resourceId: key.id, before: null, after: key })
    return { account_id: toId('ac', account.id), admin_id: ownerId, token }
  })
}
