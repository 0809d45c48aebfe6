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

/** Prints one JSON line, so that a script can take the token from it. It is shown this once. */
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

/** An account with its first admin and a key, and the key that signs records if there is none. */
export async function createAccount(db: DbPool, config: Config, wanted: NewAccount) {
  // The same limits as for a user that is made through the API.
  checkUser({ name: wanted.accountName, email: wanted.adminEmail })
  checkUser({ name: wanted.adminName, email: wanted.adminEmail })
  // First: a secrets key that cannot be read must not lose the token of an account that was created.
  const active = (await listSigningKeys(db)).find((key) => key.active)
  const signingKey = active ?? (await addSigningKey(db, openSecretsBox(config)))
  const { accountId, adminId, token } = await bootstrapAccount(db, wanted, config.GATEHOUSE_PUBLIC_URL)
  return { account_id: accountId, admin_id: adminId, token, signing_key: signingKey.public_key }
}

/** On stderr, beside the JSON: with the second account, the default of who may use which host name changes. */
async function tellOfOwnership(db: DbPool, { GATEHOUSE_DOMAIN_OWNERSHIP: ownership }: Config): Promise<void> {
  if (ownership !== 'auto' || (await countAccounts(db)) !== 2) return
  console.error(
    "gatehouse: this installation now has two accounts. From now on, new HTTPS hostports need a verified domain (POST /reserved_domains) or one that you assign with 'gatehouse domains assign'. Existing hostports stay. To let accounts use any name as before, set GATEHOUSE_DOMAIN_OWNERSHIP=trusted. To silence this note, set it to required.",
  )
}

const countAccounts = async (db: DbPool): Promise<number> =>
  (await one<{ count: number }>(db, sql`select count(*) from accounts`)).count

/** For an account that has lost every admin's token: a new key for an admin, printed once, and in the audit. */
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
