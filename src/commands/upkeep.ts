import type { Logger } from 'pino'
import type { Config } from '../config.ts'
import type { DbPool } from '../db/pool.ts'
import type { Metrics } from '../http/metrics.ts'
import { systemClock } from '../kernel/clock.ts'
import { forgetAddressesOfUses } from '../resources/api_keys/uses.ts'
import { addAuditPartitions, dropAuditPartitions } from '../resources/audit_events/partitions.ts'
import { deleteEndedSessions } from '../resources/dashboard_session/store.ts'
import { countRefusedHostports } from '../resources/edges/hostports.ts'
import { deleteIdempotencyKeys } from '../resources/idempotency.ts'
import { deleteEdgeCountsBefore } from '../resources/ip_activity/edge_counts.ts'
import { deleteRefusalsBefore } from '../resources/ip_refusals/store.ts'
import { deleteCountsBefore } from '../resources/ip_restrictions/counts.ts'
import { deleteOutboxBefore } from '../resources/outbox/store.ts'
import { deleteSeenAddressesBefore, seenForDays } from '../resources/seen_addresses/store.ts'

const dayMs = 24 * 60 * 60 * 1_000

/** What time does to the data: partitions ahead, and whatever is past its retention gone. Several processes may do it at once. */
export async function upkeep(
  db: DbPool,
  config: Config,
  log: Pick<Logger, 'info'>,
  metrics: Pick<Metrics, 'showRefusedHostports'>,
): Promise<void> {
  const now = systemClock()
  await addAuditPartitions(db, now)
  const dropped = await dropAuditPartitions(db, now, config.GATEHOUSE_AUDIT_RETENTION_MONTHS)
  if (dropped.length) log.info({ dropped }, 'dropped audit events past their retention')
  const oldestAddress = now - config.GATEHOUSE_ADDRESS_RETENTION_DAYS * dayMs
  await deleteCountsBefore(db, oldestAddress)
  await deleteEdgeCountsBefore(db, oldestAddress)
  await deleteRefusalsBefore(db, oldestAddress)
  await forgetAddressesOfUses(db, oldestAddress)
  await deleteSeenAddressesBefore(db, Math.max(oldestAddress, now - seenForDays * dayMs))
  await deleteIdempotencyKeys(db)
  await deleteEndedSessions(db)
  metrics.showRefusedHostports(await countRefusedHostports(db))
  // Without edges nobody reads the outbox; with the first one everything is compared and sent anyway.
  if (config.GATEHOUSE_NATS_URL.length === 0) await deleteOutboxBefore(db, now - dayMs)
}
