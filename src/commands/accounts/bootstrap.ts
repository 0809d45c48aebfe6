import { violates } from '../../db/failures.ts'
import { type DbPool, run } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { transaction } from '../../db/transaction.ts'
import { ownersRights } from '../../identity/grant.ts'
import type { Origin } from '../../identity/origin.ts'
import { hashToken, newToken } from '../../identity/token.ts'
import { newId, newUuid, toId, type Uuid } from '../../kernel/ids.ts'
import { recordChange } from '../../operations/audit.ts'
import { insertApiKey } from '../../resources/api_keys/store.ts'
import { stableApiKeyFields, toApiKey } from '../../resources/api_keys/view.ts'
import { insertPrincipal } from '../../resources/principals/store.ts'
import { stableUserFields, toUser } from '../../resources/principals/view.ts'

export class AccountExists extends Error {
  override readonly name = 'AccountExists'
}

type Bootstrap = { accountName: string; adminName: string; adminEmail: string }

/** Creates an account with its first admin and that admin's key. Everything else goes through the API. */
export async function bootstrapAccount(db: DbPool, wanted: Bootstrap, publicUrl: string) {
  const account = { accountId: newUuid() }
  const origin: Origin = { ...account, operation: 'server.bootstrap', operationId: newId('op') }
  const uri = (path: string) => publicUrl + path
  const token = newToken()
  return transaction(db, async (tx) => {
    await insertAccount(tx, account.accountId, wanted.accountName)
    const admin = toUser(
      await insertPrincipal(tx, account, {
        kind: 'user',
        name: wanted.adminName,
        email: wanted.adminEmail,
        role: 'admin',
        active: true,
      }),
      uri,
    )
    const key = await insertApiKey(tx, account, {
      ownerId: admin.id,
      tokenHash: hashToken(token),
      description: 'bootstrap',
      metadata: null,
      expires_at: null,
      grant: ownersRights,
      createdBy: null,
    })
    if (!key) throw new Error('the admin that was just inserted is missing')
    await recordChange(tx, origin, { resourceId: admin.id, before: null, after: stableUserFields(admin) })
    await recordChange(tx, origin, {
      resourceId: toId('ak', key.id),
      before: null,
      after: stableApiKeyFields(toApiKey(key, uri)),
    })
    return { accountId: toId('ac', account.accountId), adminId: admin.id, token }
  })
}

async function insertAccount(tx: Parameters<typeof run>[0], id: Uuid, name: string): Promise<void> {
  try {
    await run(tx, sql`insert into accounts (id, name) values (${id}, ${name})`)
  } catch (cause) {
    if (!violates(cause, 'accounts_name_unique')) throw cause
    throw new AccountExists(
      `There is already an account named ${JSON.stringify(name)}. Choose another name with --account.`,
      { cause },
    )
  }
}
