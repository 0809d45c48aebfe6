import type { Logger } from 'pino'
import { deleteCountsBefore } from '../access/evidence/counts.ts'
import { deleteEdgeCountsBefore } from '../access/evidence/edge_counts.ts'
import { forgetAddressesOfUses } from '../access/evidence/key_uses.ts'
import { deleteRefusalsBefore } from '../access/evidence/refusals.ts'
import { deleteOldRuleHits } from '../access/evidence/rule_hits.ts'
import { deleteSeenAddressesBefore, seenForDays } from '../access/evidence/seen_addresses.ts'
import type { Config } from '../config.ts'
import type { DbPool } from '../db/pool.ts'
import type { Metrics } from '../http/metrics.ts'
import { systemClock } from '../kernel/clock.ts'
import { deleteIdempotencyKeys } from '../operations/idempotency.ts'
import { deleteOutboxBefore } from '../operations/outbox.ts'
import { addAuditPartitions, dropAuditPartitions } from '../resources/audit_events/partitions.ts'
import { deleteEndedSignIns } from '../resources/command_sign_in/store.ts'
import { deleteEndedSessions } from '../resources/dashboard_session/store.ts'
import { countRefusedHostports } from '../resources/edges/hostports.ts'
import { deleteRequestCountsBefore } from '../resources/requests/keep.ts'
import { addRequestPartitions, dropRequestPartitions } from '../resources/requests/partitions.ts'
import { expiryOfCertificates } from '../resources/tls_certificates/store.ts'
import { deleteDeliveriesBefore } from '../resources/webhook_destinations/deliveries.ts'

const dayMs = 24 * 60 * 60 * 1_000

/**
 * What time does to the data: partitions ahead, and whatever is past its retention gone. Several processes may do it at
 * once. Each task is on its own: what one cannot do does not keep the others from theirs.
 */
export async function upkeep(
  db: DbPool,
  checkDomains: () => Promise<void>,
  config: Config,
  log: Pick<Logger, 'info' | 'error'>,
  metrics: Pick<Metrics, 'showRefusedHostports' | 'showCertificates'>,
): Promise<void> {
  const now = systemClock()
  const oldestAddress = now - config.GATEHOUSE_ADDRESS_RETENTION_DAYS * dayMs
  const oldestRequest = now - config.GATEHOUSE_REQUEST_RETENTION_DAYS * dayMs
  const tasks: Record<string, () => Promise<unknown>> = {
    'add audit partitions': () => addAuditPartitions(db, now),
    'drop audit partitions': async () => {
      const dropped = await dropAuditPartitions(db, now, config.GATEHOUSE_AUDIT_RETENTION_MONTHS)
      if (dropped.length) log.info({ dropped }, 'dropped audit events past their retention')
    },
    'add request partitions': () => addRequestPartitions(db, now),
    'drop request partitions': () => dropRequestPartitions(db, oldestRequest),
    'delete counts of requests': () => deleteRequestCountsBefore(db, oldestRequest),
    'delete counts of restrictions': () => deleteCountsBefore(db, oldestAddress),
    'delete counts of edges': () => deleteEdgeCountsBefore(db, oldestAddress),
    'delete counts of rules': () => deleteOldRuleHits(db, now),
    'delete refusals': () => deleteRefusalsBefore(db, oldestAddress),
    'forget addresses of uses': () => forgetAddressesOfUses(db, oldestAddress),
    'delete seen addresses': () => deleteSeenAddressesBefore(db, Math.max(oldestAddress, now - seenForDays * dayMs)),
    'check reserved domains': checkDomains,
    'delete idempotency keys': () => deleteIdempotencyKeys(db),
    'delete ended sign-ins': () => deleteEndedSignIns(db),
    'delete ended sessions': () => deleteEndedSessions(db),
    'delete webhook deliveries': () =>
      deleteDeliveriesBefore(db, now - config.GATEHOUSE_WEBHOOK_RETENTION_DAYS * dayMs),
    'count refused hostports': async () => metrics.showRefusedHostports(await countRefusedHostports(db)),
    'look at the expiry of certificates': async () => {
      const { seconds, ...byExpiry } = await expiryOfCertificates(db)
      metrics.showCertificates(byExpiry, seconds)
    },
    // Without edges nobody reads the outbox; with the first one everything is compared and sent anyway.
    ...(config.GATEHOUSE_NATS_URL.length === 0 && {
      'delete old changes': () => deleteOutboxBefore(db, now - dayMs),
    }),
  }
  for (const [task, work] of Object.entries(tasks))
    await work().catch((err) => log.error({ err, task }, 'upkeep: a task failed; retrying in an hour'))
}
