import type { Logger } from 'pino'
import { countRefusedAfterAllowed } from '../access/evidence/address_outcomes.ts'
import type { DbPool } from '../db/pool.ts'
import type { Metrics } from '../http/metrics.ts'
import { systemClock } from '../kernel/clock.ts'
import { interval } from './interval.ts'

/** Keeps the metric of addresses that changes have shut out. */
export const countNewlyRefused = (db: DbPool, metrics: Pick<Metrics, 'showNewlyRefused'>, log: Pick<Logger, 'error'>) =>
  interval(
    60_000,
    async () => metrics.showNewlyRefused(await countRefusedAfterAllowed(db, systemClock())),
    (err) => log.error({ err }, 'cannot count newly refused addresses'),
  )
