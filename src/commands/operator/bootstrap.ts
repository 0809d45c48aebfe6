import type { Config } from '../../config/config.ts'
import { type DbPool, one } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { validator } from '../../http/input/validate.ts'
import { Refusal } from '../../kernel/errors.ts'
import { addSigningKey, listSigningKeys } from '../../publisher/signing_keys.ts'
import { UserCreate } from '../../resources/principals/schema.ts'
import { AccountExists, bootstrapAccount } from '../accounts/bootstrap.ts'
import { noSuchAccount } from '../accounts/find.ts'
import { recoverAccount } from '../accounts/recover.ts'
import { withDatabase } from '../database.ts'
import { openSecretsBox } from '../secrets_key.ts'

const checkUser = validator(UserCreate, 'body')

export type NewAccount = { accountName: string; adminName: string; adminEmail: string }

/** Prints one JSON line, from which a script can take the token. It is shown only this once. */
export const bootstrap = (config: Config, wanted: NewAccount): Promise<number> =>
  withDatabase(config, async (db) => {
    try {
      console.log(JSON.stringify(await createAccount(db, config, wanted)))
      await tellOfOwnership(db, config)
      return 0
    } catch (error) {
      if (!(error instanceof AccountExists || error instanceof Refusal)) throw error
      console.error(`gatehouse: ${error.message}`)
      return 1
    }
  })

/** Creates an account with its first admin and a key, and the signing key for records if there is none. */
export async function createAccount(db: DbPool, config: Config, wanted: NewAccount) {
  // Same limits as for users created through the API.
  checkUser({ name: wanted.accountName, email: wanted.adminEmail })
  checkUser({ name: wanted.adminName, email: wanted.adminEmail })
  // Runs first: an unreadable secrets key must not lose the token of a created account.
  const active = (await listSigningKeys(db)).find((key) => key.active)
  const signingKey = active ?? (await addSigningKey(db, openSecretsBox(config)))
  const { accountId, adminId, token } = await bootstrapAccount(db, wanted, config.GATEHOUSE_PUBLIC_URL)
  return { account_id: accountId, admin_id: adminId, token, signing_key: signingKey.public_key }
}

/** Prints to stderr, beside the JSON. With the second account, the default rule for host names changes. */
async function tellOfOwnership(db: DbPool, { GATEHOUSE_DOMAIN_OWNERSHIP: ownership }: Config): Promise<void> {
  if (ownership !== 'auto' || (await countAccounts(db)) !== 2) return
  console.error(
    "gatehouse: this installation now has two accounts. From now on, new HTTPS hostports need a verified domain (POST /reserved_domains) or one that you assign with 'gatehouse domains assign'. Existing hostports stay. To let accounts use any name as before, set GATEHOUSE_DOMAIN_OWNERSHIP=trusted. To silence this note, set it to required.",
  )
}

const countAccounts = async (db: DbPool): Promise<number> =>
  (await one<{ count: number }>(db, sql`select count(*) from accounts`)).count

/**
 * For an account whose admins have all lost their tokens: creates an admin key, prints it once, and writes an audit
 * event.
 */
export const recover = (config: Config, account: string): Promise<number> =>
  withDatabase(config, async (db) => {
    const recovered = await recoverAccount(db, account, config.GATEHOUSE_PUBLIC_URL)
    if (!recovered) {
      console.error(noSuchAccount(account))
      return 1
    }
    console.log(JSON.stringify(recovered))
    return 0
  })
