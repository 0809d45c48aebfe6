import { networkInterfaces } from 'node:os'
import type { Logger } from 'pino'
import type { Config } from '../config/config.ts'
import { openPool } from '../db/pool.ts'
import type { Metrics } from '../http/metrics/metrics.ts'
import { systemClock } from '../kernel/clock.ts'
import type { SecretsBox } from '../kernel/crypto/secrets_box.ts'
import type { Bell } from '../kernel/flow/bell.ts'
import { momentOfUuid } from '../kernel/ids.ts'
import { createDialPolicy, type DialPolicy } from '../kernel/ip/dial_policy.ts'
import { createMailer, mailUrlFault, type SendMail } from '../webhooks/mail.ts'
import { queueFigures } from '../webhooks/queue.ts'
import { createSender } from '../webhooks/sender.ts'
import { urlFault } from '../webhooks/url.ts'
import { runWebhooks } from '../webhooks/worker.ts'
import { interval } from './interval.ts'

const dayMs = 24 * 60 * 60 * 1_000

/** Where webhooks may be sent: public addresses, unless the operator says otherwise. */
export const webhookPolicy = (config: Config): DialPolicy =>
  createDialPolicy({
    deny: config.GATEHOUSE_WEBHOOK_DENY,
    allow: config.GATEHOUSE_WEBHOOK_ALLOW,
    ownPorts: [],
    ownAddresses: () =>
      Object.values(networkInterfaces()).flatMap((all) =>
        (all ?? []).map(({ address }) => address.replace(/%.*$/, '')),
      ),
    deniesPrivate: true,
    words: { self: 'server', operator: 'the operator' },
  })

const mailPolicy = (config: Config) => ({
  recipients: config.GATEHOUSE_SMTP_RECIPIENTS,
  hasServer: config.GATEHOUSE_SMTP_URL !== undefined && config.GATEHOUSE_SMTP_FROM !== '',
})

/** Completes the sentence 'url …'. */
export const destinationFault = (config: Config, policy: DialPolicy, url: string): string | undefined =>
  /^mailto:/i.test(url) ? mailUrlFault(url, mailPolicy(config)) : urlFault(url, policy)

/** The recipients are checked again for each message: the operator's settings may have changed. */
function mailerOf(config: Config): SendMail | undefined {
  const server = config.GATEHOUSE_SMTP_URL
  if (!server) return undefined
  const mail = createMailer({
    ...server,
    user: config.GATEHOUSE_SMTP_USER,
    password: config.GATEHOUSE_SMTP_PASSWORD,
    from: config.GATEHOUSE_SMTP_FROM,
  })
  return async (message, signal) => {
    const fault = mailUrlFault(`mailto:${message.to}`, mailPolicy(config))
    return fault ? { status: null, error: `the url ${fault}`, retryAfterMs: 0 } : mail(message, signal)
  }
}

type Parts = {
  secrets: SecretsBox | undefined
  /** Rings when there may be new events. */
  changes: Bell
  metrics: Pick<Metrics, 'webhooks'>
  log: Logger
}

/** Two connections of its own, so that slow receivers cannot use up those of the API's pool. */
export function startWebhooks(
  config: Config,
  policy: DialPolicy,
  { secrets, changes, metrics, log }: Parts,
): () => Promise<void> {
  const db = openPool(
    {
      url: config.GATEHOUSE_DATABASE_URL,
      poolSize: 2,
      connectTimeoutMs: config.GATEHOUSE_DATABASE_TIMEOUT_MS,
      statementTimeoutMs: config.GATEHOUSE_DATABASE_TIMEOUT_MS,
    },
    (error) => log.warn({ reason: error.message }, 'an idle connection to PostgreSQL broke'),
  )
  const { send, close } = createSender(policy)
  const settings = {
    retryMs: config.GATEHOUSE_WEBHOOK_RETRY_SECONDS.map((seconds) => seconds * 1_000),
    retentionMs: config.GATEHOUSE_WEBHOOK_RETENTION_DAYS * dayMs,
    disableAfterMs: config.GATEHOUSE_WEBHOOK_DISABLE_DAYS * dayMs,
    uri: (path: string) => config.GATEHOUSE_PUBLIC_URL + path,
    alertsPage: config.GATEHOUSE_DASHBOARD ? `${config.GATEHOUSE_PUBLIC_URL}/dashboard/alerts` : undefined,
  }
  const logged = createOnceAMinute((err) => log.error({ err }, 'cannot send webhooks; retrying'))
  const worker = runWebhooks(
    { db, send, mail: mailerOf(config), secrets, clock: systemClock, settings, count: metrics.webhooks.attempted },
    changes,
    logged,
  )
  const stopFigures = interval(
    15_000,
    async () => {
      const { pending, dead, oldest } = await queueFigures(db)
      const oldestSeconds = oldest === null ? 0 : Math.max(0, (systemClock() - momentOfUuid(oldest)) / 1_000)
      metrics.webhooks.queue({ pending, dead, oldestSeconds })
    },
    logged,
  )
  return async () => {
    await worker.stop()
    await stopFigures()
    close()
    await db.end()
  }
}

/** While the database is away, every look at it fails, four times a second. */
function createOnceAMinute(write: (error: unknown) => void): (error: unknown) => void {
  let last = Number.NEGATIVE_INFINITY
  return (error) => {
    if (systemClock() - last < 60_000) return
    last = systemClock()
    write(error)
  }
}
