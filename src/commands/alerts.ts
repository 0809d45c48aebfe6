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
/** Nodes report every second or two: who hears from them for longer than this has heard from each that lives. */
const listenMs = 12_000
/** A process that does not hear from nodes leaves turns to others for this long, and then says what it does not know. */
const patienceMs = 30_000
/** An account whose evaluation takes long is evaluated less often: at most so much of the time of a process. */
const share = 1 / 20

type Parts = { db: DbPool; edges: EdgeView; metrics: Pick<Metrics, 'alerts'>; log: Pick<Logger, 'error'> }

/** Evaluates alert rules in every process that serves, one account after the other; a lease keeps two from doing one at once. */
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
