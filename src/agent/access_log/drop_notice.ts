import type { Log } from '../../kernel/log.ts'

const quietMs = 5_000

/** Logs when dropping starts, and the total once it has stopped, instead of one line for each drop. */
export function createDropNotice(log: Log, what: string, fields: object = {}) {
  let count = 0
  let lastAt = 0
  const timer = setInterval(() => {
    if (count === 0 || Date.now() - lastAt < quietMs) return
    log.warn({ ...fields, count }, `${what}: no longer dropped`)
    count = 0
  }, 1_000).unref()
  return {
    note(dropped: number): void {
      if (count === 0) log.warn(fields, `${what}: dropped, because there are more than can be taken`)
      count += dropped
      lastAt = Date.now()
    },
    stop(): void {
      clearInterval(timer)
      if (count > 0) log.warn({ ...fields, count }, `${what}: no longer dropped`)
    },
  }
}
