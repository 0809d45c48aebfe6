import { setTimeout } from 'node:timers/promises'
import type { Logger } from 'pino'
import { evaluateAccount, type TurnParts } from '../alerts/turn.ts'
import type { Config } from '../config/config.ts'
import type { DbPool } from '../db/pool.ts'
import type { EdgeView } from '../http/edges.ts'
import type { Metrics } from '../http/metrics/metrics.ts'
import { systemClock } from '../kernel/clock.ts'
import { newUuid } from '../kernel/ids.ts'
import { countFiring } from '../resources/alerts/alert_store.ts'
import { endTurn, type Turn, takeTurn } from '../resources/alerts/rule_store.ts'
import { interval } from './interval.ts'

const lookEveryMs = 1_000
/** Nodes report every second or two. After listening for this long, a process has heard from every live node. */
const listenMs = 12_000
/**
 * For this long, a process that does not hear from nodes leaves turns to others. Afterwards it reports that it does not
 * know.
 */
const patienceMs = 30_000
/** Maximum share of a process's time for one account: a slow account is evaluated less often. */
const share = 1 / 20

type Parts = { db: DbPool; edges: EdgeView; metrics: Pick<Metrics, 'alerts'>; log: Pick<Logger, 'error'> }

/**
 * Evaluates alert rules in every `serve` process, one account after the other. A lease keeps two processes from
 * evaluating the same account.
 */
export function startAlerts(config: Config, { db, edges, metrics, log }: Parts): () => Promise<void> {
  const holder = newUuid()
  const stopping = new AbortController()
  const intervalMs = config.GATEHOUSE_ALERT_INTERVAL_SECONDS * 1_000
  let hearsSince = performance.now()
  const hears = () => edges.isConnected() && performance.now() - hearsSince >= listenMs
  const parts: TurnParts = {
    db,
    clock: systemClock,
    edges: { ...edges, isConnected: hears },
    uri: (path) => config.GATEHOUSE_PUBLIC_URL + path,
    resolveAfterMs: config.GATEHOUSE_ALERT_RESOLVE_SECONDS * 1_000,
    count: metrics.alerts.changed,
  }

  async function take(turn: Turn): Promise<void> {
    const began = performance.now()
    let nextMs = intervalMs
    try {
      await evaluateAccount(parts, turn)
      metrics.alerts.evaluated('done')
    } catch (error) {
      metrics.alerts.evaluated('failed')
      throw error
    } finally {
      nextMs = Math.max(nextMs, (performance.now() - began) / share)
      await endTurn(db, turn, nextMs)
    }
  }

  async function loop(): Promise<void> {
    let failing = false
    while (!stopping.signal.aborted) {
      if (!edges.isConnected()) hearsSince = performance.now()
      try {
        const turn = await takeTurn(db, holder, hears() ? 0 : patienceMs)
        if (turn) await take(turn)
        failing = false
        if (turn) continue
      } catch (err) {
        if (!failing) log.error({ err }, 'cannot evaluate alert rules; retrying')
        failing = true
      }
      await setTimeout(lookEveryMs, undefined, { signal: stopping.signal }).catch(() => {})
    }
  }
  const looping = loop()
  const stopFigures = interval(
    15_000,
    async () => metrics.alerts.show(await countFiring(db)),
    (err) => log.error({ err }, 'cannot count alerts'),
  )
  return async () => {
    stopping.abort()
    await Promise.all([looping, stopFigures()])
  }
}
