import type { Logger } from 'pino'
import type { DbPool } from '../db/pool.ts'
import { type Acting, prepareAll, requestByService } from '../http/handling.ts'
import type { Metrics } from '../http/metrics/metrics.ts'
import type { Route } from '../http/route.ts'
import type { Bell } from '../kernel/flow/bell.ts'
import { pause } from '../kernel/flow/pause.ts'
import { newId } from '../kernel/ids.ts'
import { revertUnconfirmed, undoOverdue } from '../resources/change_sets/unconfirmed.ts'
import { countUnconfirmed, nextUnconfirmed, type Unconfirmed } from '../resources/change_sets/unconfirmed_store.ts'
import { interval } from './interval.ts'

/**
 * Maximum and minimum time between two looks. This process is woken for deadlines that it sets itself; those of another
 * process matter here only after that process is gone.
 */
const [longestMs, shortestMs] = [2_500, 50]
/** A new deadline is at least a second away. */
const wokenAfterMs = 500
/** Delay after a failure, so that a failing change set does not keep the process busy. */
const afterFailureMs = 1_000
const atOnce = 4

type Parts = {
  readonly db: DbPool
  readonly service: Acting['service']
  readonly routes: readonly Route[]
  /** Rings if there may be new deadlines. */
  readonly changes: Bell
  readonly metrics: Pick<Metrics, 'showUnconfirmed'>
  readonly log: Pick<Logger, 'info' | 'warn' | 'error'>
}

/**
 * Undoes change sets that were not confirmed in time. Every `serve` process looks for them, and wakes when the next one
 * is due; a row lock lets only one process undo it.
 */
export function startConfirmations({ db, service, routes, changes, metrics, log }: Parts): () => Promise<void> {
  const prepared = prepareAll(routes)
  const stopping = new AbortController()
  const stopFigures = interval(
    15_000,
    async () => metrics.showUnconfirmed(await countUnconfirmed(db)),
    (err) => log.error({ err }, 'cannot count unconfirmed change sets'),
  )

  async function undo(due: Unconfirmed): Promise<boolean> {
    const operationId = newId('op')
    const outcome = await undoOverdue(db, due, (on, ownerId) =>
      requestByService(
        { service, routes: prepared, operationId },
        on,
        { accountId: due.account_id, ownerId },
        revertUnconfirmed,
      ),
    )
    if (!outcome) return false
    const { generation, id, reason, state } = outcome
    if (generation !== undefined) service.edges.committed()
    service.changes.ring()
    const line = { operation_id: operationId, change_set: id, reason }
    if (state === 'reverted') log.info(line, 'undid a change set that was not confirmed in time')
    else log.warn(line, 'cannot undo a change set that was not confirmed in time: someone has to decide')
    return true
  }

  /** Resolves to the time until the next look. */
  async function look(): Promise<number> {
    const next = await nextUnconfirmed(db)
    const due = next.filter(({ in_ms }) => in_ms <= 0)
    let [done, failures] = [0, 0]
    const workers = Array.from({ length: atOnce }, async () => {
      for (let each = due.shift(); each; each = due.shift())
        await undo(each).then(
          (isDone) => {
            if (isDone) done++
          },
          (err) => {
            failures++
            log.error({ err, change_set: each?.id }, 'cannot undo an unconfirmed change set; retrying')
          },
        )
    })
    await Promise.all(workers)
    if (failures > 0) return afterFailureMs
    // The next change set of the same accounts may be due.
    if (done > 0) return 0
    return Math.min(...next.map(({ in_ms }) => Math.max(in_ms, shortestMs)), longestMs)
  }

  async function loop(): Promise<void> {
    let failing = false
    while (!stopping.signal.aborted) {
      const rung = changes.count()
      const pauseMs = await look().then(
        (ms) => {
          failing = false
          return ms
        },
        (err) => {
          if (!failing) log.error({ err }, 'cannot look for unconfirmed change sets; retrying')
          failing = true
          return longestMs
        },
      )
      await pause(Math.min(pauseMs, wokenAfterMs), stopping.signal)
      await changes.wait(rung, Math.max(0, pauseMs - wokenAfterMs), stopping.signal)
    }
  }
  const looping = loop()
  return async () => {
    stopping.abort()
    await Promise.all([looping, stopFigures()])
  }
}
