import { repairRollUps } from '../access/evidence/roll_ups.ts'
import type { Config } from '../config.ts'
import { grantToAppRole, UnfitRole } from '../db/grants.ts'
import { MigrationMismatch, migrate } from '../db/migrate.ts'
import { transaction } from '../db/transaction.ts'
import { addAuditPartitions } from '../resources/audit_events/partitions.ts'
import { type RefusedClaim, refuseOverlaps } from '../resources/edges/ownership.ts'
import { addRequestPartitions } from '../resources/requests/partitions.ts'
import { withDatabase } from './database.ts'

/** Migrating a large table, or waiting for another process to do so, may take longer than a request. */
const asLongAsItTakes = 0

export const migrateCommand = (config: Config): Promise<number> =>
  withDatabase(
    config,
    async (db) => {
      try {
        let refused: RefusedClaim[] = []
        const applied = await migrate(db, {
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
        return 0
      } catch (error) {
        if (!(error instanceof MigrationMismatch || error instanceof UnfitRole)) throw error
        console.error(`gatehouse: ${error.message}`)
        return 1
      }
    },
    asLongAsItTakes,
  )

/** For the operator, who may know whose both are. */
function describe({ hostport, edgeId, accountId, reason, overlaps }: RefusedClaim): string {
  const why = overlaps
    ? `overlaps ${overlaps.hostport} of the older ${overlaps.edgeId} (${overlaps.accountId}), which stays in force`
    : 'is a wildcard directly under a public suffix'
  return `refused ${hostport} of ${edgeId} (${accountId}), ${reason}: it ${why}`
}
