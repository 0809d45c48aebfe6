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
 * The longest and the shortest time between two looks. Changes of this process wake it for deadlines that they set; those of
 * others only count here when the other process is gone.
 */
const [longestMs, shortestMs] = [2_500, 50]
/** A deadline that was just set is at least a second away. */
const wokenAfterMs = 500
/** One that fails is tried again after this, so that it does not keep the process busy. */
const afterFailureMs = 1_000
const atOnce = 4

type Parts = {
  readonly db: DbPool
  readonly service: Acting['service']
  readonly routes: readonly Route[]
  /** Rings when there may be new deadlines. */
  readonly changes: Bell
  readonly metrics: Pick<Metrics, 'showUnconfirmed'>
  readonly log: Pick<Logger, 'info' | 'warn' | 'error'>
}

/**
 * Undoes change sets that were not confirmed in time. Every process that serves looks for them, and wakes when the next one is due;
 * the lock of its row lets one of them do it.
 */
export function startConfirmations({ db, service, routes, changes, metrics, log }: Parts): () => Promise<void> {
  const prepared = prepareAll(routes)
  const stopping = new AbortController()
  const stopFigures = interval(
    15_000,
    async () => metrics.showUnconfirmed(await countUnconfirmed(db)),
    (err) => log.error({ err }, 'cannot count unconfirmed change sets'),
  )

  /** Resolves to whether this process was the one to do it. */
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

  /** Resolves to how long to wait until the next look. */
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
    // The next of the same accounts may be due.
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
