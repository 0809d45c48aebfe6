import { repairRollUps } from '../../access/evidence/roll_ups.ts'
import type { Config } from '../../config/config.ts'
import { grantToAppRole, UnfitRole } from '../../db/grants.ts'
import { LockWaitEnded, type LockWaitOptions, reportingLockWaits } from '../../db/lock_waits.ts'
import { MigrationMismatch, migrate } from '../../db/migrate.ts'
import type { DbPool } from '../../db/pool.ts'
import { transaction } from '../../db/transaction.ts'
import { addAuditPartitions } from '../../resources/audit_events/partitions.ts'
import { type RefusedClaim, refuseOverlaps } from '../../resources/edges/ownership.ts'
import { addRequestPartitions } from '../../resources/requests/partitions.ts'
import { withDatabase } from '../database.ts'

const applicationName = 'gatehouse migrate'

export function migrateCommand(config: Config): Promise<number> {
  const limitMs = config.GATEHOUSE_MIGRATE_LOCK_WAIT_SECONDS * 1_000
  const locks = { limitMs, say: (message: string) => console.error(`gatehouse: ${message}`) }
  // Migrating a large table, or waiting for another process to do so, may take longer than a request.
  const settings = { statementTimeoutMs: 0, lockTimeoutMs: limitMs, applicationName }
  return withDatabase(
    config,
    async (db) => {
      try {
        await reportingLockWaits(db, applicationName, locks, () => bringUpToDate(db, config, locks))
        return 0
      } catch (error) {
        if (!isForOperator(error)) throw error
        console.error(`gatehouse: ${error.message}`)
        return 1
      }
    },
    settings,
  )
}

const isForOperator = (error: unknown): error is Error =>
  error instanceof MigrationMismatch || error instanceof UnfitRole || error instanceof LockWaitEnded

async function bringUpToDate(db: DbPool, config: Config, locks: LockWaitOptions): Promise<void> {
  let refused: RefusedClaim[] = []
  const applied = await migrate(db, {
    locks,
    async finish(tx, names) {
      if (names.some((name) => name.startsWith('0007_')))
        refused = await refuseOverlaps(tx, config.GATEHOUSE_WILDCARD_SUFFIXES)
    },
  })
  for (const name of applied) console.log(`applied ${name}`)
  for (const claim of refused) console.log(describe(claim))
  await repairRollUps(db)
  await addAuditPartitions(db, Date.now())
  await addRequestPartitions(db, Date.now())
  const role = config.GATEHOUSE_DATABASE_APP_ROLE
  if (role) {
    await transaction(db, (tx) => grantToAppRole(tx, role, config.GATEHOUSE_AUDIT_RETENTION_MONTHS))
    console.log(`granted ${role} the rights that 'gatehouse serve' needs`)
  }
  console.log(applied.length ? 'The database is up to date.' : 'The database was already up to date.')
}

/** For the operator, who may know both owners. */
function describe({ hostport, edgeId, accountId, reason, overlaps }: RefusedClaim): string {
  const why = overlaps
    ? `overlaps ${overlaps.hostport} of the older ${overlaps.edgeId} (${overlaps.accountId}), which stays in force`
    : 'is a wildcard directly under a public suffix'
  return `refused ${hostport} of ${edgeId} (${accountId}), ${reason}: it ${why}`
}
