import { accessSync, constants, readFileSync } from 'node:fs'
import { isAbsolute } from 'node:path'
import type { Logger } from 'pino'
import type { AcmeSettings } from '../acme/issue.ts'
import { countOrders } from '../acme/order_leases.ts'
import { runOrders } from '../acme/run.ts'
import type { Config } from '../config/config.ts'
import type { DbPool } from '../db/pool.ts'
import type { EdgeView } from '../http/edges.ts'
import type { Metrics } from '../http/metrics/metrics.ts'
import { systemClock } from '../kernel/clock.ts'
import { ConfigError } from '../kernel/config_error.ts'
import type { SecretsBox } from '../kernel/crypto/secrets_box.ts'
import { orderLimitCode } from '../resources/reserved_domains/order_slots.ts'
import { interval } from './interval.ts'

type Wiring = { db: DbPool; secrets: SecretsBox | undefined; edges: EdgeView; metrics: Metrics; log: Logger }

/** Throws if the settings cannot work; undefined without a certificate authority. */
export function readAcmeSettings(config: Config): AcmeSettings | undefined {
  const dnsHook = config.GATEHOUSE_ACME_DNS_HOOK
  const dnsOnly = config.GATEHOUSE_ACME_CHALLENGE === 'dns-01'
  if (config.GATEHOUSE_ACME_DIRECTORY === '') return undefined
  if (config.GATEHOUSE_SECRETS_KEY_FILE === '')
    throw new ConfigError('GATEHOUSE_ACME_DIRECTORY is set, which needs GATEHOUSE_SECRETS_KEY_FILE')
  if (dnsOnly && dnsHook === '')
    throw new ConfigError('GATEHOUSE_ACME_CHALLENGE is dns-01, which needs GATEHOUSE_ACME_DNS_HOOK')
  if (dnsHook !== '') checkHook(dnsHook)
  return {
    directoryUrl: config.GATEHOUSE_ACME_DIRECTORY,
    ca: readRoots(config.GATEHOUSE_ACME_CA_FILE),
    contact: config.GATEHOUSE_ACME_EMAIL,
    agreesToTerms: config.GATEHOUSE_ACME_AGREE_TERMS,
    dnsHook,
    dnsOnly,
    ordersPerHour: config.GATEHOUSE_ACME_ORDERS_PER_HOUR,
  }
}

function checkHook(hook: string): void {
  try {
    if (!isAbsolute(hook)) throw new Error('not an absolute path')
    accessSync(hook, constants.X_OK)
  } catch (cause) {
    throw new ConfigError(`GATEHOUSE_ACME_DNS_HOOK is ${hook}, which cannot be run: ${(cause as Error).message}`, {
      cause,
    })
  }
}

function readRoots(file: string): string | undefined {
  if (file === '') return undefined
  try {
    return readFileSync(file, 'utf8')
  } catch (cause) {
    throw new ConfigError(`GATEHOUSE_ACME_CA_FILE is ${file}, which cannot be read`, { cause })
  }
}

/** Does nothing without a certificate authority. */
export function startAcme(config: Config, wiring: Wiring): () => Promise<void> {
  const { db, secrets, edges, metrics, log } = wiring
  const settings = readAcmeSettings(config)
  if (!settings || !secrets) return async () => {}
  const parts = {
    db,
    box: secrets,
    nodes: edges,
    waitForNodesMs: 30_000,
    settings,
    clock: systemClock,
    random: Math.random,
    onCleanUpFailed: (err: unknown) => log.warn({ err }, 'cannot remove the challenges of a validated name'),
  }
  const orders = runOrders(parts, {
    onOutcome({ domain, issued, error, unmet }) {
      if (issued) log.info({ domain }, 'a certificate was issued')
      if (error)
        log.warn({ domain, code: error.code, reason: error.message, err: error.cause }, 'no certificate was issued')
      if (unmet?.code === orderLimitCode) log.warn({ domain }, 'an account has reached its certificate orders per hour')
      metrics.countAcmeOutcome(issued, error?.code)
    },
    onError: (err) => log.error({ err }, 'cannot process certificate orders; retrying'),
  })
  const stopCounting = interval(
    15_000,
    async () => metrics.showAcmeOrders(await countOrders(db)),
    (err) => log.error({ err }, 'cannot count certificate orders'),
  )
  return async () => {
    await Promise.all([orders.stop(), stopCounting()])
  }
}
