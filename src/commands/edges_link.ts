import type { NatsConnection } from '@nats-io/transport-node'
import type { Logger } from 'pino'
import type { Config } from '../config/config.ts'
import type { DbPool } from '../db/pool.ts'
import { channelsOf, wakeSubject } from '../distribution/channels.ts'
import { connectNats, createNatsLink } from '../distribution/nats_connection.ts'
import { noteEmergencies } from '../fleet/emergencies.ts'
import type { Fleet } from '../fleet/fleet.ts'
import { noteProxyChanges } from '../fleet/proxy_changes.ts'
import { type EdgeView, noEdges } from '../http/edges.ts'
import type { Metrics } from '../http/metrics/metrics.ts'
import { systemClock } from '../kernel/clock.ts'
import type { SecretsBox } from '../kernel/crypto/secrets_box.ts'
import { maxWaves } from '../kernel/edge/cells.ts'
import type { EdgeNode } from '../kernel/edge/edge_nodes.ts'
import { systemTiming } from '../kernel/system_timing.ts'
import { waitAtMost } from '../kernel/wait_at_most.ts'
import { type Cell, defaultCell, listCells } from '../operations/placement.ts'
import { bucketServer } from '../publisher/bucket/bucket_server.ts'
import { deleteBuckets } from '../publisher/bucket/nats_sink.ts'
import { believedReports, createFindOthers, type FindOthers } from '../publisher/nodes/believed.ts'
import { changeStatus } from '../publisher/nodes/change_status.ts'
import { countNodes } from '../publisher/nodes/counted.ts'
import { createHealthBuffer } from '../publisher/nodes/health_buffer.ts'
import { noteNodeKeys, sealForNewNodes } from '../publisher/nodes/node_keys.ts'
import { forgetOld, loadNodes, saveNodes } from '../publisher/nodes/node_store.ts'
import { type EdgeNodes, watchNodes } from '../publisher/nodes/nodes.ts'
import type { RecentTraffic } from '../publisher/nodes/recent_traffic.ts'
import { type EdgeBuffers, type IsActive, saveHits, takeHits } from '../publisher/nodes/reported_hits.ts'
import { takeTraffic } from '../publisher/nodes/reported_traffic.ts'
import { takeInRequests } from '../publisher/nodes/request_intake.ts'
import { type Suspicions, watchSuspicions } from '../publisher/nodes/suspicions.ts'
import { createTails } from '../publisher/nodes/tails.ts'
import { afterLastPublisher, publisherDatabase } from '../publisher/postgres.ts'
import { runPublisher } from '../publisher/publisher.ts'
import { runPublishers } from '../publisher/publishers.ts'
import type { CompileContext } from '../publisher/records/changed.ts'
import { watchRollouts } from '../publisher/waves/watch.ts'
import { cellsWithWaves, laterWaves } from '../publisher/waves/waves.ts'
import { interval } from './interval.ts'

const dayMs = 24 * 60 * 60 * 1_000
/** How often to check for cells with waves while there are none. */
const lookForWavesMs = 5_000
const forgetEveryMs = 60_000

export type EdgesLink = { view: EdgeView; stop: () => Promise<void> }

type IntakeParts = {
  config: Config
  db: DbPool
  findOthers: FindOthers
  metrics: Metrics
  log: Logger
  warnOnce: (node: string, message: string) => void
}

const requestIntake = ({
  config,
  db,
  findOthers,
  metrics,
  log,
  warnOnce,
}: IntakeParts): Parameters<typeof takeInRequests>[1] => ({
  db,
  findOthers,
  clock: systemClock,
  retentionMs: config.GATEHOUSE_REQUEST_RETENTION_DAYS * dayMs,
  quotaPerHour: config.GATEHOUSE_REQUESTS_KEPT_PER_HOUR,
  onTaken(node, fates) {
    metrics.countEdgeRequests(fates)
    if (fates.unknown + fates.refused > 0)
      warnOnce(node, 'an edge node sent requests that are out of bounds or of no account; not logged again for it')
  },
  onError: (err) => log.error({ err }, 'cannot write requests of an edge node; it will resend them'),
})

type Parts = { buffers: EdgeBuffers; metrics: Metrics; log: Logger; secrets: SecretsBox | undefined; fleet: Fleet }

/** Everything between the control plane and its edges. Without NATS there are no edges, and the API says so. */
export function linkEdges(config: Config, db: DbPool, { buffers, metrics, log, secrets, fleet }: Parts): EdgesLink {
  if (config.GATEHOUSE_NATS_URL.length === 0) return { view: noEdges, stop: async () => {} }
  const warnOnce = createWarnOnce(log)
  const nodes = watchNodes(systemClock, (node, dropped) => {
    metrics.countDroppedFromReports(dropped === 'report' ? 1 : dropped)
    warnOnce(node, 'an edge node reported out-of-bounds values, which were dropped; not logged again for this node')
  })
  function dropOfOthers(node: string, dropped: number): void {
    metrics.countDroppedFromReports(dropped)
    warnOnce(node, reportOfOthers)
  }
  // Not awaited: even if the database does not answer yet, the API must respond.
  void loadNodes(db).then(nodes.remember, (err) => log.warn({ err }, 'cannot load the known edge nodes yet'))
  const publishers = watchPublishers(metrics)
  const findOthers = createFindOthers(db, systemClock)
  const believed = believedReports(nodes, { findOthers, isActive: publishers.isActive, onDropped: dropOfOthers })
  takeHits(believed, buffers, publishers.isActive)
  saveHits(believed, { db, clock: systemClock, log }, publishers.isActive)
  const traffic = takeTraffic(db, believed, { clock: systemClock, log })
  metrics.watchEdgeNodes(nodes.all)
  noteProxyChanges(nodes, { db, clock: systemClock, log, isActive: publishers.isActive })
  noteEmergencies(nodes, { db, log, isActive: publishers.isActive })
  const tails = createTails()

  const ending = new AbortController()
  let nats: NatsConnection | undefined
  const link = createNatsLink(config.GATEHOUSE_NATS_URL, (fault) =>
    fault ? log.warn(fault) : log.info('connected to NATS'),
  )
  metrics.watchNats(link.isConnected)
  // Not awaited: without NATS, the API still answers, and PostgreSQL stores the changes.
  const publishing = publishOnceConnected().catch((err) => {
    if (!ending.signal.aborted) log.error({ err }, 'the connection to NATS failed')
  })
  async function publishOnceConnected(): Promise<void> {
    nats = await connectNats({ ...natsSettings(config, fleet), signal: ending.signal, link })
    nodes.listen(nats)
    fleet.listen(nats, link.isConnected)
    takeInRequests(nats, requestIntake({ config, db, findOthers, metrics, log, warnOnce }))
    tails.listen(nats)
    const outside = { ...waysOut(config, db, nats, secrets), isConnected: link.isConnected }
    const given = { ...outside, nodes, publishers, context: compileContext(secrets, warnOnce), log }
    await publishToCells(given, () => listCells(db), ending.signal)
  }
  const stopSaving = interval(
    5_000,
    async () => {
      if (!publishers.isAnyActive()) return
      const own = nodes.all().filter(({ cell }) => publishers.isActive(cell))
      await saveNodes(db, own, ({ node }, err) =>
        warnOnce(node, 'cannot save the state of an edge node; not logged again for this node', err),
      )
      const cells = (await listCells(db)).filter(({ name }) => publishers.isActive(name))
      if (await noteReported(config, db, { own, cells }, { log, secrets })) nats?.publish(wakeSubject)
    },
    (err) => log.error({ err }, 'cannot save the state of edge nodes; retrying'),
  )

  const stopForgetting = forget(db, publishers, log)
  const stopWatching = watchWaves(db, { nodes, traffic, publishers, log, metrics }, () => nats?.publish(wakeSubject))
  const stopSavingHealth = saveHealth(db, believed, metrics, log, publishers)

  return {
    view: {
      ...nodes,
      ...changeStatus(db, nodes),
      watch: tails.watch,
      isConnected: link.isConnected,
      committed: () => nats?.publish(wakeSubject),
      fault: () => link.fault() ?? publishers.fault(),
    },
    async stop() {
      ending.abort()
      // Calls hang while NATS is unreachable. The database has everything, so waiting longer would gain nothing.
      await waitAtMost(3_000, publishing)
      await Promise.all([stopSaving(), stopForgetting(), stopSavingHealth(), stopWatching()])
      await nats?.close()
    },
  }
}

const forget = (db: DbPool, { isActive }: { isActive: IsActive }, log: Logger): (() => Promise<void>) =>
  interval(
    forgetEveryMs,
    async () => {
      if (isActive(defaultCell.name)) await forgetOld(db, systemClock())
    },
    (err) => log.error({ err }, 'cannot save the state of edge nodes; retrying'),
  )

/** For warnings that a node or a record may cause over and over. */
function createWarnOnce(log: Logger) {
  const warned = new Set<string>()
  return (about: string, message: string, err?: unknown): void => {
    if (warned.has(`${about} ${message}`)) return
    warned.add(`${about} ${message}`)
    log.warn({ node: about, err }, message)
  }
}

const natsSettings = (config: Config, { credentials }: Fleet) => ({
  servers: config.GATEHOUSE_NATS_URL,
  name: 'gatehouse control plane',
  caFile: config.GATEHOUSE_NATS_CA_FILE,
  user: config.GATEHOUSE_NATS_USER,
  password: config.GATEHOUSE_NATS_PASSWORD,
  credentials,
})

type PublishingParts = ReturnType<typeof waysOut> & {
  isConnected: () => boolean
  nodes: EdgeNodes
  publishers: ReturnType<typeof watchPublishers>
  context: CompileContext
  log: Logger
}

function publishToCells(
  { databaseOf, afterLast, nodes, publishers, log, ...given }: PublishingParts,
  list: () => Promise<Cell[]>,
  ending: AbortSignal,
): Promise<void> {
  async function publish(cell: Cell, signal: AbortSignal): Promise<void> {
    const metrics = publishers.metricsOf(cell.name)
    const ofCell = {
      database: databaseOf(cell),
      channels: (wave: number) => channelsOf(cell.name, wave),
      suspicions: suspicionsOf(nodes, cell),
      log: cell.id === defaultCell.id ? log : log.child({ cell: cell.name }),
    }
    await runPublisher({ ...given, ...ofCell, metrics }, signal)
    if (ending.aborted) return
    metrics.forget()
    const clean = async () => {
      for (let wave = 0; wave < maxWaves; wave++)
        await deleteBuckets(await given.buckets.streams(), ofCell.channels(wave))
    }
    await afterLast(cell, clean).catch((err) => log.warn({ err, cell: cell.name }, bucketsLeft))
  }
  return runPublishers({ listCells: list, publish, timing: given.timing, log }, ending)
}

/**
 * Watches the rollouts of the cells in which this process publishes. Every process tracks which nodes get changes later
 * than others.
 */
function watchWaves(
  db: DbPool,
  {
    nodes,
    traffic,
    publishers,
    log,
    metrics,
  }: Pick<PublishingParts, 'nodes' | 'publishers' | 'log'> & { traffic: RecentTraffic; metrics: Metrics },
  wake: () => void,
): () => Promise<void> {
  let nextLook = 0
  return interval(
    1_000,
    async () => {
      if (performance.now() < nextLook) return
      const cells = await cellsWithWaves(db)
      if (cells.length === 0) nextLook = performance.now() + lookForWavesMs
      if (cells.length === 0) return nodes.setLater(new Set())
      nodes.setLater(new Set((await laterWaves(db)).keys()))
      const own = cells.filter(({ name }) => publishers.isActive(name))
      if (
        await watchRollouts(
          { ...{ db, nodes: nodes.all, traffic, clock: systemClock, log }, onHalted: metrics.countHalt },
          own,
        )
      )
        wake()
    },
    (err) => log.error({ err }, 'cannot look after rollouts; retrying'),
  )
}

/** Created for each wave on first use. */
function suspicionsOf(nodes: EdgeNodes, cell: Cell) {
  const ofWaves = new Map<number, Suspicions>()
  return (wave: number): Suspicions => {
    const known = ofWaves.get(wave) ?? watchSuspicions(nodes, cell.name)
    ofWaves.set(wave, known)
    return known
  }
}

const waysOut = (config: Config, db: DbPool, nats: NatsConnection, secrets: SecretsBox | undefined) => ({
  databaseOf: publisherDatabase(db, systemTiming, secrets),
  afterLast: (cell: Cell, work: () => Promise<void>) => afterLastPublisher(db, cell, work),
  nats,
  buckets: bucketServer(nats, config.GATEHOUSE_NATS_REPLICAS),
  timing: systemTiming,
})

/** Tracks the state of this process's publishers, for metrics and for other parts of the process. */
function watchPublishers(metrics: Metrics) {
  const active = new Set<string>()
  const faults = new Map<string, { heldBack?: string | undefined; stalled?: string | undefined }>()
  return {
    isActive: (cell: string): boolean => active.has(cell),
    isAnyActive: (): boolean => active.size > 0,
    fault(): string | undefined {
      const all = [...faults].map(([cell, { stalled, heldBack }]) => [cell, stalled ?? heldBack] as const)
      const [cell, fault] = all.find(([, reason]) => reason !== undefined) ?? []
      return cell === defaultCell.name || fault === undefined ? fault : `in the cell ${cell}: ${fault}`
    },
    metricsOf(cell: string) {
      const shown = metrics.publisher(cell)
      return {
        ...shown,
        active(isActive: boolean) {
          if (isActive) active.add(cell)
          else active.delete(cell)
          shown.active(isActive)
        },
        heldBack(count: number, heldBack: string | undefined) {
          faults.set(cell, { ...faults.get(cell), heldBack })
          shown.heldBack(count)
        },
        stalled: (stalled: string | undefined) => void faults.set(cell, { ...faults.get(cell), stalled }),
        forget() {
          faults.delete(cell)
          shown.forget()
        },
      }
    },
  }
}

const compileContext = (
  secrets: SecretsBox | undefined,
  warnOnce: (key: string, message: string) => void,
): CompileContext => ({
  ...(secrets && { secrets }),
  onUnavailable: (key, reason) => warnOnce(key, `cannot send ${key}; edge nodes keep what they have: ${reason}`),
})

/**
 * Stores keys that nodes report, queues what each accepted key must receive, and counts nodes. Resolves to whether
 * something has to be sent.
 */
async function noteReported(
  config: Config,
  db: DbPool,
  { own, cells }: { own: readonly EdgeNode[]; cells: readonly Cell[] },
  { log, secrets }: Pick<Parts, 'log' | 'secrets'>,
): Promise<boolean> {
  const waiting = await noteNodeKeys(db, own, config.GATEHOUSE_EDGE_NODE_KEYS)
  for (const node of waiting) log.warn({ node }, waitingKey)
  let sealed = 0
  if (secrets) for (const cell of cells) sealed += await sealForNewNodes(db, cell, secrets)
  let isMore = sealed > 0
  for (const cell of cells) isMore = (await countNodes(db, cell)) || isMore
  return isMore
}

const bucketsLeft =
  'cannot delete the buckets of a deleted cell; a new cell of its name will. Until then NATS keeps them'

const reportOfOthers =
  'an edge node reported about accounts that are not placed in its cell, which was dropped; not logged again for this node'

const waitingKey =
  "an edge node reports another key than the accepted one, and gets no certificates for it. If that is right, run 'gatehouse edge-keys accept'"

/** Only in the active publisher of the cell, like counts. */
function saveHealth(
  db: DbPool,
  nodes: Pick<EdgeNodes, 'onReport'>,
  metrics: Metrics,
  log: Logger,
  { isActive, isAnyActive }: { isActive: IsActive; isAnyActive: () => boolean },
): () => Promise<void> {
  const buffer = createHealthBuffer(db, metrics.countDroppedFromReports)
  nodes.onReport((report, cell) => {
    if (isActive(cell)) buffer.add(report, systemClock())
  })
  return interval(
    2_000,
    async () => {
      if (isAnyActive()) await buffer.flush(systemClock())
    },
    (err) => log.error({ err }, 'cannot save backend health; edge nodes will report it again'),
  )
}
