import type { Logger } from 'pino'
import { countRefusedAfterAllowed } from '../access/evidence/address_outcomes.ts'
import { newestBackup } from '../backup/store.ts'
import type { DbPool } from '../db/pool.ts'
import { readDueGeneration } from '../health/facts.ts'
import { statusOfNode } from '../health/fleet.ts'
import { type State, states } from '../health/status.ts'
import type { EdgeView } from '../http/edges.ts'
import type { Metrics } from '../http/metrics/metrics.ts'
import { databaseClockOffset, readinessFaults, synchronousStandbys } from '../http/readiness.ts'
import { systemClock } from '../kernel/clock.ts'
import type { EdgeNode } from '../kernel/edge/edge_nodes.ts'
import type { Quotas } from '../kernel/quotas.ts'
import { largestShares } from '../operations/quota.ts'
import { countOpenRollouts } from '../publisher/waves/store.ts'
import { acceptedNodeKeys } from '../resources/edge_nodes/store.ts'
import { interval } from './interval.ts'

/** One metric per account and kind would be too many: shows only those that need a decision soon. */
const [leastShare, maxShown] = [0.8, 50]

type Shown = Pick<
  Metrics,
  'showNewlyRefused' | 'showQuotaShares' | 'showNewestBackup' | 'showReadiness' | 'showNodeStates' | 'showRollouts'
>

/** For operators who alert on metrics instead of /readyz. */
async function showReadiness(db: DbPool, hasStandby: boolean, metrics: Shown): Promise<void> {
  const isReady = (await readinessFaults(db)).length === 0
  const clockOffset = isReady ? await databaseClockOffset(db, systemClock).catch(() => undefined) : undefined
  const standbys = hasStandby
    ? await synchronousStandbys(db).then(
        ({ present }) => present,
        () => undefined,
      )
    : undefined
  metrics.showReadiness({ isReady, clockOffset, standbys })
}

/** Same states as in /edge_nodes. Without the database, it is unknown what nodes should have applied. */
async function showNodeStates(db: DbPool, edges: EdgeView, metrics: Shown): Promise<void> {
  const nodes = edges.all()
  const read = await nodeStatuses(db, edges, nodes).catch(() => undefined)
  const found = read ?? nodes.map(() => 'unknown' as const)
  metrics.showNodeStates(
    Object.fromEntries(states.map((state) => [state, found.filter((each) => each === state).length])),
  )
}

async function nodeStatuses(db: DbPool, edges: EdgeView, nodes: readonly EdgeNode[]): Promise<State[]> {
  const [due, accepted] = [await readDueGeneration(db), await acceptedNodeKeys(db)]
  return nodes.map((node) => statusOfNode(node, { isConnected: edges.isConnected(), due, accepted }).state)
}

/** Reads these metrics from the database every minute. A failing one does not affect the others. */
export function showMinuteMetrics(
  db: DbPool,
  edges: EdgeView,
  quotas: Quotas,
  metrics: Shown,
  log: Pick<Logger, 'error'>,
  { hasStandby }: { hasStandby: boolean },
) {
  const everyMinute = (what: string, work: () => Promise<void>) =>
    interval(60_000, work, (err) => log.error({ err }, `cannot read ${what}`))
  const stops = [
    interval(
      15_000,
      () => showReadiness(db, hasStandby, metrics),
      () => {},
    ),
    interval(
      15_000,
      () => showNodeStates(db, edges, metrics),
      () => {},
    ),
    interval(
      15_000,
      async () => metrics.showRollouts(await countOpenRollouts(db)),
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
