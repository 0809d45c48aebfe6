import type { Logger } from 'pino'
import { countRefusedAfterAllowed } from '../access/evidence/address_outcomes.ts'
import { newestBackup } from '../backup/store.ts'
import type { DbPool } from '../db/pool.ts'
import type { Metrics } from '../http/metrics/metrics.ts'
import { databaseClockOffset, readinessFaults } from '../http/readiness.ts'
import { systemClock } from '../kernel/clock.ts'
import type { Quotas } from '../kernel/quotas.ts'
import { largestShares } from '../operations/quota.ts'
import { interval } from './interval.ts'

/** A metric for every account and kind would be too many: only those that will soon need a decision are shown. */
const [leastShare, maxShown] = [0.8, 50]

type Shown = Pick<Metrics, 'showNewlyRefused' | 'showQuotaShares' | 'showNewestBackup' | 'showReadiness'>

/** For those who alert on metrics, and do not ask /readyz. */
async function showReadiness(db: DbPool, metrics: Shown): Promise<void> {
  const isReady = (await readinessFaults(db)).length === 0
  const clockOffset = isReady ? await databaseClockOffset(db, systemClock).catch(() => undefined) : undefined
  metrics.showReadiness({ isReady, clockOffset })
}

/** Keeps the metrics that are read from the database every minute. What one cannot read does not keep the others from theirs. */
export function showMinuteMetrics(db: DbPool, quotas: Quotas, metrics: Shown, log: Pick<Logger, 'error'>) {
  const everyMinute = (what: string, work: () => Promise<void>) =>
    interval(60_000, work, (err) => log.error({ err }, `cannot read ${what}`))
  const stops = [
    interval(
      15_000,
      () => showReadiness(db, metrics),
      () => {},
    ),
    everyMinute('which addresses are newly refused', async () =>
      metrics.showNewlyRefused(await countRefusedAfterAllowed(db, systemClock())),
    ),
    everyMinute('how much of their quotas accounts use', async () =>
      metrics.showQuotaShares(await largestShares(db, quotas, leastShare, maxShown)),
    ),
    everyMinute('when the newest backup was made', async () => metrics.showNewestBackup(await newestBackup(db))),
  ]
  return () => Promise.all(stops.map((stop) => stop()))
}
