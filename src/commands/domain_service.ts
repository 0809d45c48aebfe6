import type { Logger } from 'pino'
import type { Config } from '../config/config.ts'
import type { DbPool } from '../db/pool.ts'
import type { DomainService } from '../http/domains.ts'
import type { Metrics } from '../http/metrics/metrics.ts'
import { type Clock, systemClock } from '../kernel/clock.ts'
import { createRateLimiter } from '../kernel/flow/rate_limiter.ts'
import { createTxtLookup } from '../resources/reserved_domains/dns.ts'
import { recheckDomains } from '../resources/reserved_domains/recheck.ts'
import { countByStatus } from '../resources/reserved_domains/store.ts'

const dayMs = 24 * 60 * 60 * 1_000
/** Bounds memory. */
const maxAccounts = 10_000

export function createDomainService(config: Config, clock: Clock): DomainService {
  const limiter = createRateLimiter(clock, maxAccounts)
  const limit = { requests: config.GATEHOUSE_DOMAIN_CHECKS_PER_MINUTE, seconds: 60 }
  return {
    ownership: config.GATEHOUSE_DOMAIN_OWNERSHIP,
    managesCertificates: config.GATEHOUSE_ACME_DIRECTORY !== '',
    graceMs: config.GATEHOUSE_DOMAIN_GRACE_DAYS * dayMs,
    lookUpTxt: createTxtLookup(config.GATEHOUSE_DNS_SERVERS),
    countCheck: (accountId) => limiter.take(accountId, limit),
  }
}

/** Part of upkeep: checks for lost TXT records, and counts domains by status. */
export async function checkDomains(
  db: DbPool,
  domains: DomainService,
  log: Pick<Logger, 'warn'>,
  metrics: Pick<Metrics, 'showReservedDomains'>,
): Promise<void> {
  for (const { domain, status, error } of await recheckDomains(db, domains, systemClock))
    if (status !== 'verified') log.warn({ domain, status, error }, 'the TXT record of a reserved domain has gone')
  metrics.showReservedDomains(await countByStatus(db))
}
