import { setTimeout } from 'node:timers/promises'
import type { Logger } from 'pino'
import { createEvaluate } from '../access/decisions.ts'
import type { Config } from '../config/config.ts'
import { quotasIn } from '../config/quotas.ts'
import { unusualAboveIn } from '../config/unusual_changes.ts'
import { version } from '../config/version.ts'
import { isWrongDatabase } from '../db/failures.ts'
import { mayDeleteAudit } from '../db/grants.ts'
import { type DbPool, run } from '../db/pool.ts'
import { createShares } from '../db/shares.ts'
import { sql } from '../db/sql.ts'
import type { Fleet } from '../fleet/fleet.ts'
import { createEventStreams } from '../http/event_stream.ts'
import { createHeavyOperations } from '../http/limits/heavy.ts'
import { createRateLimits } from '../http/limits/rate_limits.ts'
import { createMetrics, type Metrics } from '../http/metrics/metrics.ts'
import type { InstallationSettings } from '../http/route.ts'
import { createServer } from '../http/server.ts'
import type { Service } from '../http/service.ts'
import { systemClock } from '../kernel/clock.ts'
import type { SecretsBox } from '../kernel/crypto/secrets_box.ts'
import { readDatabaseUrl } from '../kernel/database_url.ts'
import { createBell } from '../kernel/flow/bell.ts'
import type { DialPolicy } from '../kernel/ip/dial_policy.ts'
import { packageFiles } from '../kernel/package_files.ts'
import { noteBreakGlass } from '../operations/approval.ts'
import { rehearseChange } from '../operations/dry_run.ts'
import { createFailedSignInNotes } from '../operations/failed_sign_ins.ts'
import { createRefusedKeyRecorder } from '../operations/refused_keys.ts'
import { routes } from '../resources/routes.ts'
import { startAcme } from './acme.ts'
import { startAlerts } from './alerts.ts'
import { createBuffers } from './buffers.ts'
import { openDatabase } from './database.ts'
import { checkDomains, createDomainService } from './domain_service.ts'
import { linkEdges } from './edges_link.ts'
import { joinRoutesOf, openFleet } from './fleet.ts'
import { interval } from './interval.ts'
import { createLog, lostLogLines, waitForShutdown } from './log.ts'
import { showMinuteMetrics } from './minute_metrics.ts'
import { requireNatsCa } from './nats_ca.ts'
import { openSecretsBox, warnOfMissingKeys } from './secrets_key.ts'
import { signInRoutes } from './sign_in.ts'
import { openTracing } from './tracing.ts'
import { startConfirmations } from './unconfirmed.ts'
import { upkeep } from './upkeep.ts'
import { destinationFault, startWebhooks, webhookPolicy } from './webhooks.ts'

/** How long to wait, before listening, for the database to prove that it is the wrong one. */
const databasePatienceMs = 2_000
/** Each stream holds a connection, queries the database every two seconds, and makes nodes send watched requests. */
const streamLimits = { total: 100, perAccount: 10 }

export async function serve(config: Config): Promise<number> {
  requireNatsCa(config.GATEHOUSE_NATS_CA_FILE)
  const log = createLog(config.GATEHOUSE_LOG_LEVEL)
  const domains = createDomainService(config, systemClock)
  const db = openDatabase(config, (error) =>
    log.warn({ reason: error.message }, 'an idle connection to PostgreSQL broke'),
  )
  const heavy = createHeavyOperations({ running: config.GATEHOUSE_HEAVY_OPERATIONS })
  const streams = createEventStreams(streamLimits)
  const metrics = createMetrics(version, { db, heavy, streams, lostLogLines })
  const tracing = await openTracing(config, log)
  const evaluate = createEvaluate(db, systemClock, config.GATEHOUSE_POLICY_CACHE_MB * 1024 * 1024)
  const { start: startBuffers, ...buffers } = createBuffers(db, metrics, log)
  const webhooksMayGo = webhookPolicy(config)
  const secrets = openSecretsBox(config)
  const { fleet, stop: stopFleet } = openFleet(config, db, { secrets, metrics, log })
  const edges = linkEdges(config, db, { buffers, metrics, log, secrets, fleet })
  const stopAcme = startAcme(config, { db, secrets, edges: edges.view, metrics, log })
  const changes = createBell()
  const service: Service = {
    ...databaseOf(config, db),
    heavy,
    streams,
    clock: systemClock,
    publicUrl: config.GATEHOUSE_PUBLIC_URL,
    versionHeaders: ['service-version', ...config.GATEHOUSE_VERSION_HEADER_ALIASES],
    domains,
    trustedProxies: config.GATEHOUSE_TRUSTED_PROXIES,
    evaluate,
    edges: edges.view,
    changes,
    settings: installationSettings(config, webhooksMayGo, secrets),
    ...buffers,
    metrics,
    trace: tracing.note,
    dashboard: config.GATEHOUSE_DASHBOARD,
    rateLimits: rateLimits(config),
    ...createRefusalNotes(db, metrics, log),
  }
  const app = createServer({
    service,
    routes: config.GATEHOUSE_DASHBOARD
      ? routes
      : routes.filter(({ operation }) => !/^(dashboard_session|command_sign_in|users\.invitation)\./.test(operation)),
    log,
    requestTimeoutMs: config.GATEHOUSE_REQUEST_TIMEOUT_MS,
    ...(config.GATEHOUSE_DASHBOARD && { dashboardFolder: packageFiles.dashboard }),
    plainRoutes: await plainRoutes(config, fleet, log),
    ...(config.GATEHOUSE_DOCS && { docs: { folder: packageFiles.docs, referenceFolder: packageFiles.reference } }),
    version,
  })
  await refuseWrongDatabase(db)
  await app.listen(config.GATEHOUSE_LISTEN)
  const stopBuffers = startBuffers()
  const stopWork = startWork(config, { db, service, changes, secrets, webhooksMayGo, log })
  const address = app.server.address()
  log.info({ address, public_url: config.GATEHOUSE_PUBLIC_URL, version }, 'listening')

  // Not awaited: /readyz reports a database that is down or not migrated.
  void warnOfPowerfulRole(db, log)
  void warnOfMissingKeys(db, secrets, log)

  await closeWhenTold(app, config, log)
  await Promise.all([stopAcme(), stopWork(), edges.stop(), stopFleet()])
  await Promise.all([stopBuffers(), tracing.stop()])
  await db.end()
  log.info('stopped')
  return 0
}

/** Starts everything besides answering requests. Returns a function that stops it. */
function startWork(
  config: Config,
  parts: {
    db: DbPool
    service: Service
    changes: ReturnType<typeof createBell>
    secrets: ReturnType<typeof openSecretsBox>
    webhooksMayGo: ReturnType<typeof webhookPolicy>
    log: Logger
  },
) {
  const { db, service, changes, secrets, log } = parts
  const { metrics, domains, edges } = service
  const stop = [
    interval(
      60 * 60 * 1_000,
      () => upkeep({ db, secrets, checkDomains: () => checkDomains(db, domains, log, metrics), config, log, metrics }),
      (err) => log.error({ err }, 'upkeep failed'),
    ),
    showMinuteMetrics(db, edges, quotasIn(config), metrics, log, {
      hasStandby: readDatabaseUrl(config.GATEHOUSE_DATABASE_URL).servers.length > 1,
    }),
    startConfirmations({ db, service, routes, changes, metrics, log }),
    startWebhooks(config, parts.webhooksMayGo, { secrets, changes, metrics, log }),
    startAlerts(config, { db, edges, metrics, log }),
  ]
  return () => Promise.all(stop.map((each) => each()))
}

/** Resolves once the requests in flight have finished, or the deadline has passed. */
async function closeWhenTold(app: ReturnType<typeof createServer>, config: Config, log: Logger): Promise<void> {
  const signal = await waitForShutdown()
  log.info({ signal }, 'shutting down: finishing requests in flight')
  const giveUp = globalThis.setTimeout(() => {
    log.error('grace period expired: closing open connections')
    app.server.closeAllConnections()
  }, config.GATEHOUSE_SHUTDOWN_GRACE_MS)
  await app.close()
  clearTimeout(giveUp)
}

const databaseOf = (config: Config, db: DbPool) => ({
  db,
  dbOf: createShares(db, config.GATEHOUSE_DATABASE_POOL_SIZE, config.GATEHOUSE_DATABASE_TIMEOUT_MS),
  rehearse: rehearseChange,
  noteBreakGlass,
})

/** Routes besides the API. */
async function plainRoutes(config: Config, fleet: Fleet, log: Logger) {
  const signIn = config.GATEHOUSE_DASHBOARD ? await signInRoutes(config, log) : () => []
  const joining = joinRoutesOf(config, fleet, log)
  return (service: Service) => [...signIn(service), ...joining(service)]
}

const rateLimits = (config: Config) =>
  createRateLimits(systemClock, {
    requestsPerMinute: config.GATEHOUSE_REQUESTS_PER_MINUTE,
    failuresPerMinute: config.GATEHOUSE_FAILED_REQUESTS_PER_MINUTE,
  })

const installationSettings = (
  config: Config,
  webhooksMayGo: DialPolicy,
  secrets: SecretsBox | undefined,
): InstallationSettings => ({
  webhookUrlFault: (url) => destinationFault(config, webhooksMayGo, url),
  tcpPorts: config.GATEHOUSE_TCP_PORTS,
  quotas: quotasIn(config),
  unusualAbove: unusualAboveIn(config),
  requestsPerMinute: config.GATEHOUSE_REQUESTS_PER_MINUTE,
  tokenSignIn: config.GATEHOUSE_TOKEN_SIGN_IN,
  loginSeconds: config.GATEHOUSE_LOGIN_HOURS * 60 * 60,
  operations: routes.map(({ operation }) => operation),
  adminOperations: new Set(routes.filter(({ access }) => access === 'admin').map(({ operation }) => operation)),
  wildcardSuffixes: config.GATEHOUSE_WILDCARD_SUFFIXES,
  secrets,
})

/** Refusals that the account's admins see in the audit, and the caller does not. */
const createRefusalNotes = (db: DbPool, metrics: Metrics, log: Logger) => ({
  noteFailedSignIn: createFailedSignInNotes({
    db,
    clock: systemClock,
    count: (reason) => metrics.countSignIn('api_key', reason),
    warn: (fields, message) => log.warn(fields, message),
    onError: (err) => log.error({ err }, 'cannot write an audit event of a failed sign-in'),
  }),
  recordRefusedKey: createRefusedKeyRecorder(db, systemClock, (err) =>
    log.error({ err }, 'cannot write an audit event of a refused API key'),
  ),
})

/** A missing database may still come up. One that rejects this user, or has another name, will not. */
async function refuseWrongDatabase(db: DbPool): Promise<void> {
  const asked = run(db, sql`select`).catch((error: unknown) => {
    if (isWrongDatabase(error)) throw error
  })
  await Promise.race([asked, setTimeout(databasePatienceMs, undefined, { ref: false })])
}

async function warnOfPowerfulRole(db: DbPool, log: Logger): Promise<void> {
  const may = await mayDeleteAudit(db).catch(() => false)
  if (may) log.warn('serving with a database role that can delete audit events; see docs/operate/database-roles.md')
}
