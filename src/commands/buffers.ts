import type { Logger } from 'pino'
import { createHitBuffer } from '../access/evidence/hit_buffer.ts'
import { createOutcomeBuffer } from '../access/evidence/outcome_buffer.ts'
import { createRuleHitBuffer } from '../access/evidence/rule_hit_buffer.ts'
import { createUsageBuffer } from '../access/evidence/usage_buffer.ts'
import type { DbPool } from '../db/pool.ts'
import type { Metrics } from '../http/metrics/metrics.ts'
import { interval } from './interval.ts'

/** Data from requests that is written every second instead of with each request. */
export function createBuffers(db: DbPool, metrics: Metrics, log: Logger) {
  const hitBuffer = createHitBuffer(db, metrics.countLostHits)
  const ruleHitBuffer = createRuleHitBuffer(db, metrics.countLostHits)
  const usageBuffer = createUsageBuffer(db, metrics.countLostSightings)
  const outcomeBuffer = createOutcomeBuffer(db, metrics.countLostSightings)
  const all = [
    { flush: hitBuffer.flush, what: 'counts of refused and warned requests' },
    { flush: ruleHitBuffer.flush, what: 'counts of rules' },
    { flush: usageBuffer.flush, what: 'API key usage' },
    { flush: outcomeBuffer.flush, what: 'addresses that were let in or refused' },
  ]
  return {
    hitBuffer,
    ruleHitBuffer,
    usageBuffer,
    outcomeBuffer,
    /** Returns a function that stops it and writes the rest. */
    start(): () => Promise<void> {
      const stops = all.map(({ flush, what }) =>
        interval(1_000, flush, (err) => log.error({ err }, `cannot write ${what}; keeping them to retry`)),
      )
      return async () => {
        await Promise.all(stops.map((stop) => stop()))
        for (const { flush, what } of all) await flush().catch((err) => log.error({ err }, `lost the last ${what}`))
      }
    },
  }
}
