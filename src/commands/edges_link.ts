import type { NatsConnection } from '@nats-io/transport-node'
import type { Logger } from 'pino'
import type { HitBuffer } from '../access/evidence/hit_buffer.ts'
import type { OutcomeBuffer } from '../access/evidence/outcome_buffer.ts'
import { addReportedRuleHits } from '../access/evidence/rule_hits.ts'
import type { Config } from '../config/config.ts'
import type { DbPool } from '../db/pool.ts'
import { keptRuleHits, type Report, wakeSubject } from '../distribution/channels.ts'
import { connectNats, createNatsLink } from '../distribution/nats_connection.ts'
import { type EdgeView, noEdges } from '../http/edges.ts'
import type { Metrics } from '../http/metrics/metrics.ts'
import { systemClock } from '../kernel/clock.ts'
import type { SecretsBox } from '../kernel/crypto/secrets_box.ts'
import type { ChangeStatus, NodeStatus } from '../kernel/edge/edge_nodes.ts'
import { type Id, isId, toUuid, type Uuid } from '../kernel/ids.ts'
import { systemTiming } from '../kernel/system_timing.ts'
import { waitAtMost } from '../kernel/wait_at_most.ts'
import { bucketServer } from '../publisher/bucket_server.ts'
import type { Means } from '../publisher/changed.ts'
import { createHealthBuffer } from '../publisher/health_buffer.ts'
import { noteNodeKeys, sealForNewNodes } from '../publisher/node_keys.ts'
import { forgetOld, loadNodes, saveNodes } from '../publisher/node_store.ts'
import { type EdgeNodes, watchNodes } from '../publisher/nodes.ts'
import { publisherDatabase } from '../publisher/postgres.ts'
import { runPublisher } from '../publisher/publisher.ts'
import { takeInRequests } from '../publisher/request_intake.ts'
import { watchSuspicions } from '../publisher/suspicions.ts'
import { createTails } from '../publisher/tails.ts'
import { withheldAt } from '../publisher/withheld.ts'
import { interval } from './interval.ts'

const dayMs = 24 * 60 * 60 * 1_000

export type EdgesLink = { view: EdgeView; stop: () => Promise<void> }

type IntakeParts = {
  config: Config
  db: DbPool
  metrics: Metrics
  log: Logger
  warnOnce: (node: string, message: string) => void
}

const requestIntake = ({ config, db, metrics, log, warnOnce }: IntakeParts): Parameters<typeof takeInRequests>[1] => ({
  db,
  clock: systemClock,
  retentionMs: config.GATEHOUSE_REQUEST_RETENTION_DAYS * dayMs,
  quotaPerHour: config.GATEHOUSE_REQUESTS_KEPT_PER_HOUR,
  onTaken(node, fates) {
    metrics.countEdgeRequests(fates)
    if (fates.unknown + fates.refused > 0)
      warnOnce(node, 'an edge node sent requests that are out of bounds or of no account; not logged again for it')
  },
  onError: (err) => log.error({ err }, 'cannot write requests of an edge node, which will send them again'),
})

type EdgeBuffers = { hitBuffer: HitBuffer; outcomeBuffer: OutcomeBuffer }
type Parts = { buffers: EdgeBuffers; metrics: Metrics; log: Logger; secrets: SecretsBox | undefined }

/** Everything between the control plane and its edges. Without NATS there are none, and the API says so. */
export function linkEdges(config: Config, db: DbPool, { buffers, metrics, log, secrets }: Parts): EdgesLink {
  if (config.GATEHOUSE_NATS_URL.length === 0) return { view: noEdges, stop: async () => {} }
  const nodes = watchNodes(systemClock, (node, dropped) => {
    metrics.countDroppedFromReports(dropped === 'report' ? 1 : dropped)
    warnOnce(node, 'an edge node reported out-of-bounds values, which were dropped; not logged again for this node')
  })
  const warned = new Set<string>()
  function warnOnce(node: string, message: string, err?: unknown): void {
    if (warned.has(node)) return
    warned.add(node)
    log.warn({ node, err }, message)
  }
  // Not waited for either: a database that does not answer yet must not keep the API from saying so.
  void loadNodes(db).then(nodes.remember, (err) => log.warn({ err }, 'the edge nodes of before are not known yet'))
  const publisher = watchPublisher(metrics)
  takeHits(nodes, buffers, publisher.isActive)
  saveRuleHits(db, nodes, log, publisher.isActive)
  metrics.watchEdgeNodes(nodes.all)
  const tails = createTails()

  const ending = new AbortController()
  let nats: NatsConnection | undefined
  const link = createNatsLink(config.GATEHOUSE_NATS_URL, (fault) =>
    fault ? log.warn(fault) : log.info('connected to NATS'),
  )
  metrics.watchNats(link.isConnected)
  // Not waited for: the API answers and PostgreSQL keeps what changes while NATS is not there.
  const publishing = publishOnceConnected().catch((err) => {
    if (!ending.signal.aborted) log.error({ err }, 'the connection to NATS failed')
  })
  async function publishOnceConnected(): Promise<void> {
    nats = await connectNats({
      servers: config.GATEHOUSE_NATS_URL,
      name: 'gatehouse control plane',
      caFile: config.GATEHOUSE_NATS_CA_FILE,
      user: config.GATEHOUSE_NATS_USER,
      password: config.GATEHOUSE_NATS_PASSWORD,
      signal: ending.signal,
      link,
    })
    nodes.listen(nats)
    takeInRequests(nats, requestIntake({ config, db, metrics, log, warnOnce }))
    tails.listen(nats)
    const outside = { ...waysOut(config, db, nats, secrets), isConnected: link.isConnected, log }
    const given = { means: meansOf(secrets, warnOnce), suspicions: watchSuspicions(nodes) }
    await runPublisher({ ...outside, ...given, metrics: publisher.metrics }, ending.signal)
  }
  const stopSaving = interval(
    5_000,
    async () => {
      if (!publisher.isActive()) return
      await saveNodes(db, nodes.all(), ({ node }, err) =>
        warnOnce(node, 'cannot save the state of an edge node; not logged again for this node', err),
      )
      await forgetOld(db, systemClock())
      if (await tendNodeKeys(config, db, nodes, { log, secrets })) nats?.publish(wakeSubject)
    },
    (err) => log.error({ err }, 'cannot save the state of edge nodes; retrying'),
  )

  const stopSavingHealth = saveHealth(db, nodes, metrics, log, publisher.isActive)

  return {
    view: {
      ...nodesAndChanges(db, nodes),
      watch: tails.watch,
      committed: () => nats?.publish(wakeSubject),
      fault: () => link.fault() ?? publisher.fault(),
    },
    async stop() {
      ending.abort()
      // With NATS out of reach its calls hang; the database has everything, so there is nothing to wait for.
      await waitAtMost(3_000, publishing)
      await stopSaving()
      await stopSavingHealth()
      await nats?.close()
    },
  }
}

/** All that the publisher reaches through. */
const waysOut = (config: Config, db: DbPool, nats: NatsConnection, secrets: SecretsBox | undefined) => ({
  database: publisherDatabase(db, secrets),
  nats,
  buckets: bucketServer(nats, config.GATEHOUSE_NATS_REPLICAS),
  timing: systemTiming,
})

/**
 * Nodes go on to later generations without a record that was withheld from them. Asked after their reports, because the
 * publisher writes it down first. If the database does not answer, no node counts as having applied the change.
 */
async function withoutWithheld(db: DbPool, generation: number, status: NodeStatus): Promise<ChangeStatus> {
  const withheld = await withheldAt(db, generation).catch(() => undefined)
  if (withheld?.length === 0) return { ...status, withheld }
  return { live: status.live, applied: [], behind: status.live, withheld: withheld ?? [] }
}

const nodesAndChanges = (db: DbPool, nodes: EdgeNodes) => ({
  ...nodes,
  status: (generation: number) => withoutWithheld(db, generation, nodes.status(generation)),
  waitFor: async (generation: number, timeoutMs: number) =>
    withoutWithheld(db, generation, await nodes.waitFor(generation, timeoutMs)),
})

/** What the publisher of this process says of itself, for its metrics and for others here. */
function watchPublisher(metrics: Metrics) {
  let isActive = false
  let heldBack: string | undefined
  let stalled: string | undefined
  return {
    isActive: () => isActive,
    fault: () => stalled ?? heldBack,
    metrics: {
      ...metrics.publisher,
      active(now: boolean) {
        isActive = now
        metrics.publisher.active(now)
      },
      heldBack(count: number, reason: string | undefined) {
        heldBack = reason
        metrics.publisher.heldBack(count)
      },
      stalled(reason: string | undefined) {
        stalled = reason
      },
    },
  }
}

/** Only the active publisher adds up what nodes counted, or it would be added once by every process. */
function takeHits(nodes: EdgeNodes, buffers: EdgeBuffers, isActive: () => boolean): void {
  nodes.onReport((report, answer) => {
    if (!isActive()) return
    countHits(report, buffers)
    if (!report.ruleHits) answer('kept')
  })
}

/** Answered when it is in the database. Until then the node sends the same again. */
function saveRuleHits(db: DbPool, nodes: EdgeNodes, log: Logger, isActive: () => boolean): void {
  const busy = new Set<string>()
  nodes.onReport(({ node, ruleHits }, answer) => {
    if (!ruleHits || !isActive() || busy.has(node)) return
    busy.add(node)
    const hits = ruleHits.hits.map(({ account, rule, ...hit }) => ({
      ...hit,
      accountId: toUuid(account as Id<'ac'>),
      ruleId: toUuid(rule as Id<'ipr'>),
    }))
    const { sender, batch } = ruleHits
    addReportedRuleHits(db, { node, sender: sender as Uuid, batch, hits }, systemClock())
      .then(() => answer(keptRuleHits(batch)))
      .catch((err) => log.error({ err, node }, 'cannot write counts of rules; the edge node sends them again'))
      .finally(() => busy.delete(node))
  })
}

const meansOf = (secrets: SecretsBox | undefined, warnOnce: (key: string, message: string) => void): Means => ({
  ...(secrets && { secrets }),
  onUnavailable: (key, reason) => warnOnce(key, `cannot send ${key}; edge nodes keep what they have: ${reason}`),
})

/** Keys that nodes report, and what each accepted one has to be sent. Resolves to whether something is to be sent. */
async function tendNodeKeys(
  config: Config,
  db: DbPool,
  nodes: EdgeNodes,
  { log, secrets }: Pick<Parts, 'log' | 'secrets'>,
): Promise<boolean> {
  const waiting = await noteNodeKeys(db, nodes.all(), config.GATEHOUSE_EDGE_NODE_KEYS)
  for (const node of waiting) log.warn({ node }, waitingKey)
  return secrets !== undefined && (await sealForNewNodes(db, secrets)) > 0
}

const waitingKey =
  "an edge node reports another key than the accepted one, and gets no certificates for it. If that is right, run 'gatehouse edge-keys accept'"

/** Like counts, only by the active publisher. */
function saveHealth(
  db: DbPool,
  nodes: EdgeNodes,
  metrics: Metrics,
  log: Logger,
  isActive: () => boolean,
): () => Promise<void> {
  const buffer = createHealthBuffer(db, metrics.countDroppedFromReports)
  nodes.onReport((report) => {
    if (isActive()) buffer.add(report, systemClock())
  })
  return interval(
    2_000,
    async () => {
      if (isActive()) await buffer.flush(systemClock())
    },
    (err) => log.error({ err }, 'cannot save the health of backends; edge nodes report it again'),
  )
}

/** Bounded by readReport(). What a node names may be deleted by now, or never have been: that is left out when it is written. */
function countHits({ hits, allowed = [] }: Report, { hitBuffer, outcomeBuffer }: EdgeBuffers): void {
  for (const { restriction, target = '', source, outcome, count, lastAt } of hits) {
    const hit = { sourceIp: source, outcome, at: Date.parse(lastAt) }
    if (restriction !== null && isId('ipx', restriction))
      hitBuffer.count({ ...hit, restrictionId: toUuid(restriction), apiKeyId: null }, count)
    if (isTarget(target))
      hitBuffer.countAtEdge({ ...hit, edgeId: toUuid(target), byModule: restriction === null }, count)
    if (outcome === 'refused' && isTarget(target)) noteAtEdge(target, source, outcome, lastAt)
  }
  for (const { target, source, lastAt } of allowed) if (isTarget(target)) noteAtEdge(target, source, 'allowed', lastAt)
  function noteAtEdge(target: Id<'edgtcp' | 'edghtsrt'>, ip: string, outcome: 'allowed' | 'refused', at: string): void {
    outcomeBuffer.saw({ targetId: toUuid(target), ip, outcome, at: Date.parse(at) })
  }
}

const isTarget = (text: string): text is Id<'edgtcp' | 'edghtsrt'> => isId('edgtcp', text) || isId('edghtsrt', text)
