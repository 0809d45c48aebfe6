import { Gauge, type Registry } from 'prom-client'
import { recentWriteFault } from '../../db/failures.ts'

/**
 * `clockOffset` in milliseconds. Undefined `clockOffset`: unknown. Undefined `standbys`: a single PostgreSQL server
 * expects none.
 */
type Readiness = { isReady: boolean; clockOffset: number | undefined; standbys: number | undefined }
export type ReadinessMetrics = { readonly showReadiness: (readiness: Readiness) => void }

/** Omits each metric until its value is known. */
export function readinessMetrics(registers: Registry[]): ReadinessMetrics {
  let known: Readiness | undefined
  const gauge = (name: string, help: string, value: (readiness: Readiness) => number | undefined) =>
    new Gauge({
      name,
      help,
      registers,
      collect() {
        const now = known && value(known)
        if (now === undefined) this.reset()
        else this.set(now)
      },
    })
  gauge('gatehouse_ready', '1 while /readyz says ready. Updated every 15 seconds.', ({ isReady }) => (isReady ? 1 : 0))
  gauge(
    'gatehouse_clock_offset_seconds',
    'How far the clock of this process is ahead of that of PostgreSQL. Updated every 15 seconds.',
    ({ clockOffset }) => (clockOffset === undefined ? undefined : clockOffset / 1_000),
  )
  gauge(
    'gatehouse_db_synchronous_standbys',
    'Standbys of PostgreSQL that a change waits for and that are there, if the URL of the database names several servers. Updated every 15 seconds.',
    ({ standbys }) => standbys,
  )
  new Gauge({
    name: 'gatehouse_database_refuses_changes',
    help: '1 for a minute after PostgreSQL has refused to write, because its disk is full or it is a standby.',
    registers,
    collect() {
      this.set(recentWriteFault() ? 1 : 0)
    },
  })
  return {
    showReadiness(readiness) {
      known = readiness
    },
  }
}
