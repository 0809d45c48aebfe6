import type { Logger } from 'pino'
import type { DbPool } from '../db/pool.ts'
import type { Metrics } from '../http/metrics.ts'
import type { Quotas } from '../kernel/quotas.ts'
import { largestShares } from '../operations/quota.ts'
import { interval } from './interval.ts'

/** A metric for every account and kind would be too many: only those that will soon need a decision are shown. */
const [leastShare, maxShown] = [0.8, 50]

export const showQuotaShares = (
  db: DbPool,
  quotas: Quotas,
  metrics: Pick<Metrics, 'showQuotaShares'>,
  log: Pick<Logger, 'error'>,
) =>
  interval(
    60_000,
    async () => metrics.showQuotaShares(await largestShares(db, quotas, leastShare, maxShown)),
    (err) => log.error({ err }, 'cannot read how much of their quotas accounts use'),
  )
