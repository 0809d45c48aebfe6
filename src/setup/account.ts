import { existsSync } from 'node:fs'
import { withDatabase } from '../commands/database.ts'
import { createAccount, type NewAccount } from '../commands/operator/bootstrap.ts'
import { migrateCommand } from '../commands/operator/migrate.ts'
import type { Config } from '../config/config.ts'
import { migrationFault } from '../db/migrate.ts'
import { maybeOne } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { ConfigError } from '../kernel/config_error.ts'
import { holds } from './configs.ts'
import { folders, writeOnce } from './files.ts'
import type { Step } from './step.ts'

const tokenFile = `${folders.controlPlane}/admin-token`

export const migrationStep = (ownerConfig: () => Config): Step => ({
  what: 'tables of this version, and the rights of gatehouse_app',
  isDone: () => holds(ownerConfig, async (db) => (await migrationFault(db)) === undefined),
  run: async () => {
    if ((await migrateCommand(ownerConfig())) !== 0) throw new Error('the database could not be migrated')
  },
})

export const accountSteps = (serveConfig: () => Config, wanted: NewAccount): Step[] => [
  {
    what: `an account with an admin, whose token is in ${tokenFile}`,
    isDone: () =>
      holds(serveConfig, async (db) => (await maybeOne(db, sql`select from accounts limit 1`)) !== undefined),
    run: () => {
      if (existsSync(tokenFile)) throw new ConfigError(`${tokenFile} is of another installation. Move it elsewhere`)
      return withDatabase(serveConfig(), async (db) => {
        const { token } = await createAccount(db, serveConfig(), wanted)
        writeOnce(tokenFile, `${token}\n`, 0o600)
      })
    },
  },
]
