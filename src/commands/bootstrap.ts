import type { Config } from '../config.ts'
import { AccountExists, bootstrapAccount } from '../resources/accounts/bootstrap.ts'
import { withDatabase } from './database.ts'

/** Prints one JSON line, so that a script can take the token from it. It is shown this once. */
export const bootstrap = (
  config: Config,
  wanted: { accountName: string; adminName: string; adminEmail: string },
): Promise<number> =>
  withDatabase(config, async (db) => {
    try {
      const { accountId, adminId, token } = await bootstrapAccount(db, wanted, config.GATEHOUSE_PUBLIC_URL)
      console.log(JSON.stringify({ account_id: accountId, admin_id: adminId, token }))
      return 0
    } catch (error) {
      if (!(error instanceof AccountExists)) throw error
      console.error(`gatehouse: ${error.message}`)
      return 1
    }
  })
