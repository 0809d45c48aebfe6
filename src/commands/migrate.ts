import type { Config } from '../config.ts'
import { MigrationMismatch, migrate } from '../db/migrate.ts'
import { addAuditPartitions } from '../resources/audit_events/partitions.ts'
import { withDatabase } from './database.ts'

// A day: rewriting a large table takes its time, and another process that migrates is waited for.
const migrationTimeoutMs = 24 * 60 * 60 * 1_000

export const migrateCommand = (config: Config): Promise<number> =>
  withDatabase({ ...config, GATEHOUSE_DATABASE_TIMEOUT_MS: migrationTimeoutMs }, async (db) => {
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
  })
