import { once } from 'node:events'
import { type Logger, pino } from 'pino'
import type { Config } from '../config.ts'
import type { DbPool } from '../db/pool.ts'
import { createMetrics } from '../http/metrics.ts'
import { createServer } from '../http/server.ts'
import { systemClock } from '../kernel/clock.ts'
import { addAuditPartitions, dropAuditPartitions } from '../resources/audit_events/partitions.ts'
import { routes } from '../resources/routes.ts'
import { version } from '../version.ts'
import { openDatabase } from './database.ts'

const upkeepEveryMs = 60 * 60 * 1_000

export async function serve(config: Config): Promise<number> {
  const log = pino({
    level: config.GATEHOUSE_LOG_LEVEL,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (level) => ({ level }) },
  })
  const db = openDatabase(config, (error) => log.warn({ err: error }, 'an idle connection to PostgreSQL broke'))
  const metrics = createMetrics(db, version)
  const app = createServer({
    service: {
      db,
      clock: systemClock,
      publicUrl: config.GATEHOUSE_PUBLIC_URL,
      versionHeaders: ['service-version', ...config.GATEHOUSE_VERSION_HEADER_ALIASES],
      trustedProxies: config.GATEHOUSE_TRUSTED_PROXIES,
    },
    routes,
    metrics,
    log,
    requestTimeoutMs: config.GATEHOUSE_REQUEST_TIMEOUT_MS,
  })
  await app.listen(config.GATEHOUSE_LISTEN)
  const stopUpkeep = startUpkeep(db, config, log)
  const address = app.server.address()
  log.info({ address, public_url: config.GATEHOUSE_PUBLIC_URL, version }, 'listening')

  const [signal] = await Promise.race([once(process, 'SIGTERM'), once(process, 'SIGINT')])
  log.info({ signal }, 'shutting down: finishing what is in flight')
  const giveUp = setTimeout(() => {
    log.error('the grace time is over: closing what is still open')
    app.server.closeAllConnections()
  }, config.GATEHOUSE_SHUTDOWN_GRACE_MS)
  stopUpkeep()
  await app.close()
  clearTimeout(giveUp)
  await db.end()
  log.info('stopped')
  return 0
}

/** Keeps the partitions of the audit ahead of time and within the retention. Several processes may do it at once. */
function startUpkeep(db: DbPool, config: Config, log: Logger): () => void {
  const upkeep = async () => {
    try {
      await addAuditPartitions(db, systemClock())
      const dropped = await dropAuditPartitions(db, systemClock(), config.GATEHOUSE_AUDIT_RETENTION_MONTHS)
      if (dropped.length) log.info({ dropped }, 'dropped audit events past their retention')
    } catch (err) {
      log.error(
        { err },
        'upkeep of the audit partitions failed: it is tried again in an hour; events go to audit_events_default meanwhile',
      )
    }
  }
  void upkeep()
  const timer = setInterval(upkeep, upkeepEveryMs)
  return () => clearInterval(timer)
}
