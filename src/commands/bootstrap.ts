import type { Config } from '../config.ts'
import { validator } from '../http/validate.ts'
import { Refusal } from '../kernel/errors.ts'
import { addSigningKey, listSigningKeys } from '../publisher/signing_keys.ts'
import { UserCreate } from '../resources/principals/schema.ts'
import { AccountExists, bootstrapAccount } from './accounts/bootstrap.ts'
import { noSuchAccount } from './accounts/find.ts'
import { recoverAccount } from './accounts/recover.ts'
import { withDatabase } from './database.ts'

const checkUser = validator(UserCreate, 'body')

/** Prints one JSON line, so that a script can take the token from it. It is shown this once. */
export const bootstrap = (
  config: Config,
  wanted: { accountName: string; adminName: string; adminEmail: string },
): Promise<number> =>
  withDatabase(config, async (db) => {
    try {
      // The same limits as for a user that is made through the API.
      checkUser({ name: wanted.accountName, email: wanted.adminEmail })
      checkUser({ name: wanted.adminName, email: wanted.adminEmail })
      const { accountId, adminId, token } = await bootstrapAccount(db, wanted, config.GATEHOUSE_PUBLIC_URL)
      const signingKey = (await listSigningKeys(db)).find(({ active }) => active) ?? (await addSigningKey(db))
      console.log(
        JSON.stringify({ account_id: accountId, admin_id: adminId, token, signing_key: signingKey.public_key }),
      )
      return 0
    } catch (error) {
      if (!(error instanceof AccountExists || error instanceof Refusal)) throw error
      console.error(`gatehouse: ${error.message}`)
      return 1
    }
  })

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
