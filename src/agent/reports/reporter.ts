import type { NatsConnection } from '@nats-io/transport-node'
import { type Channels, kept, keptHits, keptRuleHits, type Report } from '../../distribution/channels.ts'
import { maxMessageBytes } from '../../distribution/nats_connection.ts'
import { keptTraffic } from '../../distribution/traffic_report.ts'
import type { Log } from '../../kernel/log.ts'
import type { Allowed } from './allowed.ts'
import type { Health } from './health.ts'
import type { createHits } from './hits.ts'
import type { RuleHits } from './rule_hits.ts'
import type { TrafficCounting } from './traffic_counts.ts'

export type Reported = {
  hits: ReturnType<typeof createHits>
  allowed: Allowed
  health: Health
  ruleHits: RuleHits
  /** Undefined if this node sees only part of its traffic: no count is better than one that is too low. */
  traffic?: TrafficCounting | undefined
}

type Counts = Required<Pick<Report, 'allowed' | 'health'>>
type Counted = { [Kind in keyof Counts]: readonly [Kind, Counts[Kind][number]] }[keyof Counts]

const everyMs = 2_000
const trafficEveryMs = 5_000
const soonMs = 10
const answerMs = 5_000
const warnEveryMs = 60_000
/** Space for the node's state in every message of counts. The state may grow while the message is built. */
const stateBytes = 32 * 1024
/** Maximum size of a count of an address or a rule as JSON. */
const hitBytes = 256

/**
 * Reports to the control plane what is in force here: immediately after a change, and every two seconds as a sign of
 * life. Counts go into separate messages of a size that the server accepts, and are dropped only after the active
 * publisher has answered. The health of upstreams is sent at most every two seconds: a tenant whose upstream flaps must
 * not cause a report for each change.
 */
export function createReporter(
  nats: NatsConnection,
  channels: Channels,
  { hits, allowed, health, ruleHits, traffic }: Reported,
  state: () => Omit<Report, 'hits' | 'allowed' | 'health' | 'upstreams'>,
  log: Log,
) {
  const current = (): Report => ({
    ...state(),
    countsRules: true,
    ...(traffic && { countsTraffic: true }),
    hits: [],
    upstreams: health.counts(),
  })
  const maxBytes = () => maxMessageBytes(nats)
  const countBytes = () => Math.max(maxBytes() - stateBytes, maxBytes() / 4)
  let soon: NodeJS.Timeout | undefined
  const warn = createWarnings(nats, log)
  /** Only the list of refusals can be long. Their counts stay. */
  const written = (report: Report): string => {
    const text = JSON.stringify(report)
    return Buffer.byteLength(text) <= maxBytes() ? text : JSON.stringify({ ...report, refusals: [] })
  }
  const sendNow = () => {
    soon = undefined
    const report = current()
    try {
      if (!nats.isClosed()) nats.publish(channels.reports(report.node), written(report))
    } catch (err) {
      warn(err, 'cannot report to the control plane, which takes this node for dead; retrying every two seconds')
    }
  }
  const request = async (counts: Partial<Report>): Promise<string> => {
    const report = { ...current(), ...counts }
    return (await nats.request(channels.reports(report.node), written(report), { timeout: answerMs })).string()
  }

  const sendCounts = onceAtATime(async () => {
    const messages = takeMessages({ allowed, health }, countBytes())
    try {
      for (; messages[0]; messages.shift()) await request(messages[0])
      return true
    } catch (err) {
      for (const counts of messages) {
        allowed.giveBack(counts.allowed)
        health.giveBack(counts.health)
      }
      warn(err, 'cannot deliver counts to the control plane; keeping them and retrying every two seconds')
      return false
    }
  })
  const { sendHits, sendRuleHits, sendTraffic } = batchesOf({ hits, ruleHits, traffic }, request, countBytes, warn)
  const trafficTimer = setInterval(() => void sendTraffic(), trafficEveryMs)
  const timer = setInterval(() => {
    sendNow()
    void sendCounts()
    void sendHits()
    void sendRuleHits()
  }, everyMs)
  sendNow()
  return {
    soon: () => {
      soon ??= setTimeout(sendNow, soonMs)
    },
    async stop() {
      clearInterval(timer)
      clearInterval(trafficTimer)
      clearTimeout(soon)
      // The first call may have started before the latest counts.
      const last = sendCounts().then((delivered) => delivered && sendCounts())
      await Promise.all([last, sendHits(), sendRuleHits(), sendTraffic()])
    },
  }
}

/** Logs at most one warning a minute, because failures are retried every two seconds. */
function createWarnings(nats: NatsConnection, log: Log): (err: unknown, message: string) => void {
  let next = 0
  return (err, message) => {
    if (Date.now() < next || nats.isClosed()) return
    next = Date.now() + warnEveryMs
    log.warn({ err }, message)
  }
}

/** The numbered batches, each of which is sent until it is confirmed. */
function batchesOf(
  { hits, ruleHits, traffic }: Pick<Reported, 'hits' | 'ruleHits' | 'traffic'>,
  request: (counts: Partial<Report>) => Promise<string>,
  maxBytes: () => number,
  warn: ReturnType<typeof createWarnings>,
) {
  const cannot = (what: string, soon: string) => (err: unknown) =>
    warn(err, `cannot deliver counts of ${what} to the control plane; keeping them and retrying every ${soon} seconds`)
  return {
    sendHits: inBatches(
      { next: () => hits.next(Math.floor(maxBytes() / hitBytes)), confirm: hits.confirm },
      async ({ hits: some, ...hitBatch }) =>
        [kept, keptHits(hitBatch.batch)].includes(await request({ hits: some, hitBatch })),
      cannot('addresses', 'two'),
    ),
    sendRuleHits: inBatches(
      { next: () => ruleHits.next(Math.floor(maxBytes() / hitBytes)), confirm: ruleHits.confirm },
      async (next) => (await request({ ruleHits: next })) === keptRuleHits(next.batch),
      cannot('rules', 'two'),
    ),
    sendTraffic: inBatches(
      { next: () => traffic?.next(maxBytes()), confirm: (batch) => traffic?.confirm(batch) },
      async (next) => (await request({ traffic: next })) === keptTraffic(next.batch),
      cannot('traffic', 'five'),
    ),
  }
}

type Batches<Batch> = { next: () => Batch | undefined; confirm: (batch: number) => void }
/**
 * Sends batches one by one as long as the control plane confirms that each is in its database. Older control planes
 * reply too, but do not store batches.
 */
const inBatches = <Batch extends { batch: number }>(
  { next, confirm }: Batches<Batch>,
  isKept: (batch: Batch) => Promise<boolean>,
  onError: (err: unknown) => void,
): (() => Promise<void>) =>
  onceAtATime(async () => {
    try {
      for (let batch = next(); batch; batch = next()) {
        if (!(await isKept(batch))) return
        confirm(batch.batch)
      }
    } catch (err) {
      onError(err)
    }
  })

/** A call during a run joins that run. */
function onceAtATime<Result>(work: () => Promise<Result>): () => Promise<Result> {
  let running: Promise<Result> | undefined
  return () => {
    running ??= work().finally(() => {
      running = undefined
    })
    return running
  }
}

function takeMessages({ allowed, health }: Pick<Reported, 'allowed' | 'health'>, maxBytes: number): Counts[] {
  const waiting: Counted[] = [
    ...allowed.take().map((address) => ['allowed', address] as const),
    ...health.take(Date.now()).map((upstream) => ['health', upstream] as const),
  ]
  return inMessages(waiting, maxBytes).map(countsOf)
}

/** Splits the items in order. Each message has as many as fit, and at least one. */
function inMessages<Item>(items: readonly Item[], maxBytes: number): Item[][] {
  const messages: Item[][] = []
  let room = 0
  for (const item of items) {
    const bytes = Buffer.byteLength(JSON.stringify(item))
    if (bytes > room) {
      messages.push([])
      room = maxBytes
    }
    messages.at(-1)?.push(item)
    room -= bytes
  }
  return messages
}

function countsOf(message: readonly Counted[]): Counts {
  const counts: Counts = { allowed: [], health: [] }
  for (const [kind, count] of message) {
    if (kind === 'allowed') counts.allowed.push(count)
    else counts.health.push(count)
  }
  return counts
}
