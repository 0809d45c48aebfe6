import type { Config } from '../config.ts'
import { MigrationMismatch, migrate } from '../db/migrate.ts'
import { addAuditPartitions } from '../resources/audit_events/partitions.ts'
import { withDatabase } from './database.ts'

/** A migration of a large table, and the wait for another process that runs one, may take longer than a request. */
const asLongAsItTakes = 0

export const migrateCommand = (config: Config): Promise<number> =>
  withDatabase(
    config,
    async (db) => {
      try {
        const applied = await migrate(db)
        for (const name of applied) console.log(`applied ${name}`)
        await addAuditPartitions(db, Date.now())
        console.log(applied.length ? 'The database is up to date.' : 'The database was up to date already.')
        return 0
      } catch (error) {
        if (!(error instanceof MigrationMismatch)) throw error
        console.error(`gatehouse: ${error.message}`)
        return 1
      }
    },
    asLongAsItTakes,
  )
