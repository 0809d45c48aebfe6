import type { Logger } from 'pino'
import { deleteOutcomesBefore, outcomeDays } from '../access/evidence/address_outcomes.ts'
import { forgetAddressesOfUses } from '../access/evidence/key_uses.ts'
import { deleteRefusalsBefore } from '../access/evidence/refusals.ts'
import { deleteOldHitBatches } from '../access/evidence/reported_hits.ts'
import { deleteCountsBefore, deleteEdgeCountsBefore, repairRollUps } from '../access/evidence/roll_ups.ts'
import { deleteOldRuleHits } from '../access/evidence/rule_hits.ts'
import { deleteRuleSetChangesBefore } from '../access/evidence/rule_set_changes.ts'
import { deleteSeenAddressesBefore, seenForDays } from '../access/evidence/seen_addresses.ts'
import type { Config } from '../config/config.ts'
import type { DbPool } from '../db/pool.ts'
import { forgetJoinTokens } from '../fleet/join_token.ts'
import type { Metrics } from '../http/metrics/metrics.ts'
import { systemClock } from '../kernel/clock.ts'
import type { SecretsBox } from '../kernel/crypto/secrets_box.ts'
import { deleteIdempotencyKeys } from '../operations/idempotency.ts'
import { deleteOutboxBefore } from '../operations/outbox.ts'
import { addUpUsage } from '../operations/quota.ts'
import { deleteEndedBefore, endedDays } from '../operations/rollouts.ts'
import { forgetResolvedBefore, historyOf } from '../resources/alerts/alert_store.ts'
import { addAuditPartitions, dropAuditPartitions } from '../resources/audit_events/partitions.ts'
import { appliedDays, deleteAppliedBefore } from '../resources/change_sets/store.ts'
import { deleteEndedSignIns } from '../resources/command_sign_in/store.ts'
import { deleteEndedSessions } from '../resources/dashboard_session/store.ts'
import { countRefusedHostports } from '../resources/edges/hostports.ts'
import { deleteRequestCountsBefore } from '../resources/requests/keep.ts'
import { addRequestPartitions, dropRequestPartitions } from '../resources/requests/partitions.ts'
import { expiryOfCertificates, firstToExpire } from '../resources/tls_certificates/store.ts'
import { deleteOldTraffic } from '../resources/traffic_statistics/keep.ts'
import { deleteKeysOfExpiredInvitations } from '../resources/user_invitations/store.ts'
import { deleteDeliveriesBefore } from '../resources/webhook_destinations/deliveries.ts'
import { encryptWebhookSecrets } from '../resources/webhook_destinations/secrets.ts'

const dayMs = 24 * 60 * 60 * 1_000

type Parts = {
  db: DbPool
  secrets: SecretsBox | undefined
  checkDomains: () => Promise<void>
  config: Config
  log: Pick<Logger, 'info' | 'error'>
  metrics: Pick<Metrics, 'showRefusedHostports' | 'showCertificates' | 'showExpiring'>
}

/**
 * Maintenance: creates partitions ahead and deletes data past its retention. Several processes may do it at once. A task
 * that fails does not keep the others from running.
 */
export async function upkeep({ db, secrets, checkDomains, config, log, metrics }: Parts): Promise<void> {
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
    'forget batches of hits': () => deleteOldHitBatches(db, now),
    'delete counts of edges': () => deleteEdgeCountsBefore(db, oldestAddress),
    // A process of a version before this one may still count, without adding up.
    'add up counts': () => repairRollUps(db, now - 2 * dayMs),
    'delete old traffic': () => deleteOldTraffic(db, now),
    'delete counts of rules': () => deleteOldRuleHits(db, now),
    'delete join tokens': () => forgetJoinTokens(db),
    'delete refusals': () => deleteRefusalsBefore(db, oldestAddress),
    'forget addresses of uses': () => forgetAddressesOfUses(db, oldestAddress),
    'delete seen addresses': () => deleteSeenAddressesBefore(db, Math.max(oldestAddress, now - seenForDays * dayMs)),
    'delete outcomes of addresses': () => deleteOutcomesBefore(db, Math.max(oldestAddress, now - outcomeDays * dayMs)),
    'delete changes of rule sets': () => deleteRuleSetChangesBefore(db, now - outcomeDays * dayMs),
    'check reserved domains': checkDomains,
    'add up the usage of accounts': () => addUpUsage(db),
    'delete idempotency keys': () => deleteIdempotencyKeys(db),
    'delete applied change sets': () => deleteAppliedBefore(db, now - appliedDays * dayMs),
    'delete released rollouts': () => deleteEndedBefore(db, now - endedDays * dayMs),
    'delete ended sign-ins': () => deleteEndedSignIns(db),
    'delete keys of expired invitations': () => deleteKeysOfExpiredInvitations(db),
    'delete ended sessions': () => deleteEndedSessions(db),
    'delete webhook deliveries': () =>
      deleteDeliveriesBefore(db, now - config.GATEHOUSE_WEBHOOK_RETENTION_DAYS * dayMs),
    'delete old alerts': () => forgetResolvedBefore(db, now - historyOf.days * dayMs),
    ...(secrets && { 'encrypt webhook secrets': () => encryptWebhookSecrets(db, secrets) }),
    'count refused hostports': async () => metrics.showRefusedHostports(await countRefusedHostports(db)),
    'look at the expiry of certificates': async () => {
      const { seconds, ...byExpiry } = await expiryOfCertificates(db)
      metrics.showCertificates(byExpiry, seconds)
      metrics.showExpiring(await firstToExpire(db, 20))
    },
    // Without edges the outbox has no reader; with the first one everything is compared and sent anyway.
    ...(config.GATEHOUSE_NATS_URL.length === 0 && {
      'delete old changes': () => deleteOutboxBefore(db, now - dayMs),
    }),
  }
  for (const [task, work] of Object.entries(tasks))
    await work().catch((err) => log.error({ err, task }, 'upkeep: a task failed; retrying in an hour'))
}
