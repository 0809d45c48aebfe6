import { readFileSync } from 'node:fs'
import type { Logger } from 'pino'
import type { Config } from '../config/config.ts'
import type { DbPool } from '../db/pool.ts'
import { withoutPassword } from '../distribution/nats_connection.ts'
import { createFleet, type Fleet } from '../fleet/fleet.ts'
import { joinRoutes } from '../fleet/join_routes.ts'
import type { Metrics } from '../http/metrics/metrics.ts'
import type { PlainRoute } from '../http/plain.ts'
import type { Service } from '../http/service.ts'
import { systemClock } from '../kernel/clock.ts'
import type { SecretsBox } from '../kernel/crypto/secrets_box.ts'
import { interval } from './interval.ts'

/** None without NATS. */
export function joinRoutesOf(config: Config, fleet: Fleet, log: Logger): (service: Service) => readonly PlainRoute[] {
  if (config.GATEHOUSE_NATS_URL.length === 0) return () => []
  const file = config.GATEHOUSE_NATS_CA_FILE
  const own = config.GATEHOUSE_NATS_PUBLIC_URL
  const parts = {
    fleet,
    // A URL may contain the control plane's password.
    natsServers: own.length > 0 ? own : config.GATEHOUSE_NATS_URL.map(withoutPassword),
    emergencyKeys: config.GATEHOUSE_EMERGENCY_KEYS,
    natsCa: file === '' ? null : readFileSync(file, 'utf8'),
    warn: (fields: object, message: string) => log.warn(fields, message),
  }
  return (service) => joinRoutes({ ...parts, service })
}

const keepEveryMs = 2_000

/** Without NATS there is no fleet to manage. */
export function openFleet(
  config: Config,
  db: DbPool,
  { secrets, metrics, log }: { secrets: SecretsBox | undefined; metrics: Metrics; log: Logger },
): { fleet: Fleet; stop: () => Promise<void> } {
  const servers = config.GATEHOUSE_NATS_URL
  const fleet = createFleet({
    ...{ db, secrets, clock: systemClock },
    nats: { servers, caFile: config.GATEHOUSE_NATS_CA_FILE, hasPassword: config.GATEHOUSE_NATS_USER !== '' },
    onError: (err, message) => log.error({ err }, message),
  })
  metrics.watchNatsAccounts(fleet.isOutdated)
  let lastReason: string | undefined
  const keep = async () => {
    await fleet.keep()
    lastReason = undefined
  }
  const stopKeeping =
    servers.length === 0
      ? async () => {}
      : interval(keepEveryMs, keep, (error) => {
          const reason = (error as Error).message
          // Repeats every other second until NATS or PostgreSQL is back.
          if (reason !== lastReason) log.warn({ reason }, 'cannot give NATS the accounts of edge nodes yet; retrying')
          lastReason = reason
        })
  return {
    fleet,
    async stop() {
      await stopKeeping()
      await fleet.stop()
    },
  }
}
