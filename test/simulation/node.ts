import { createAgent } from '../../src/agent/agent.ts'
import type { NodeKey } from '../../src/agent/disk/node_key.ts'
import { openPolicyFiles, type PolicyFiles } from '../../src/agent/disk/policy_files.ts'
import { openRecordLog, type RecordLog } from '../../src/agent/disk/record_log.ts'
import { createComparison } from '../../src/agent/haproxy/comparison/comparison.ts'
import { createLoading } from '../../src/agent/haproxy/loading.ts'
import { Claims } from '../../src/agent/haproxy/maps/claims.ts'
import type { Entry, MapName } from '../../src/agent/haproxy/maps/entries.ts'
import { type Change, createMapEnforcement } from '../../src/agent/haproxy/maps/map_enforcement.ts'
import { createMapFiles } from '../../src/agent/haproxy/maps/map_files.ts'
import { createLifetime } from '../../src/agent/haproxy/process/lifetime.ts'
import type { MapRuntime } from '../../src/agent/haproxy/process/runtime.ts'
import { createTurns } from '../../src/agent/haproxy/process/turns.ts'
import { mapFile, type ProxySettings, policyFolder } from '../../src/agent/haproxy/settings.ts'
import { createReceiver, follow, type Receiver } from '../../src/agent/intake/receiver.ts'
import { createHealth } from '../../src/agent/reports/health.ts'
import { createUpstreams } from '../../src/agent/upstreams/upstreams.ts'
import type { Progress } from '../../src/distribution/channels.ts'
import { channelsOf } from '../../src/distribution/channels.ts'
import type { RecordKey } from '../../src/distribution/records.ts'
import type { TrustedKeys } from '../../src/distribution/signature.ts'
import { defaultCellName } from '../../src/kernel/edge/cells.ts'
import { createDisk } from './disk.ts'
import { createHaproxy } from './haproxy.ts'
import type { Shown } from './history.ts'
import type { Nats } from './nats.ts'
import type { Process, Scheduler } from './scheduler.ts'

type Agent = ReturnType<typeof createAgent>
type Handlers = Parameters<typeof createReceiver>[1]

/** Parts of a node, as a control breaks them; everything else is the real code. */
export type BrokenNode = {
  recordLog?: (log: RecordLog) => RecordLog
  policyFiles?: (files: PolicyFiles) => PolicyFiles
  handlers?: (handlers: Handlers) => Handlers
  runtime?: (runtime: MapRuntime) => MapRuntime
}

const folder = '/node'
/** Nothing else of the settings is used here. */
const settings = { folder: '/node/haproxy' } as ProxySettings
const fileOf = (map: MapName): string => mapFile(settings, map)
const nothing = { set: [] as Entry[], del: [] as Entry[] }
/** Long after a few changes, so that it is rewritten often. */
const isLongAt = (records: number): number => records + 6
const restartAfterMs = 1_000

type World = { scheduler: Scheduler; nats: Nats; keys: TrustedKeys; broken: BrokenNode }

/** A machine with its disk, its HAProxy and its agent. */
export function createNode(
  { scheduler, nats, keys, broken }: World,
  { name, wave }: { name: string; wave: number },
  onReport: (node: Node) => void,
) {
  const channels = channelsOf(defaultCellName, wave)
  const disk = createDisk(scheduler, name)
  const haproxy = createHaproxy(scheduler, disk, fileOf, name)
  let process: Process | undefined
  let agent: Agent | undefined
  let shown: Shown = new Map()
  /** What the agent has last said of itself. */
  let reported = { applied: 0, refused: new Set<string>() }

  function note(current: Agent): void {
    const { applied, refusals } = current.state()
    if (applied !== reported.applied) scheduler.tell(name, `says that it has applied generation ${applied}`)
    reported = { applied, refused: new Set(refusals.map(({ key }) => key)) }
    onReport(node)
  }

  async function boot(mine: Process): Promise<void> {
    const timing = scheduler.timingOf(mine)
    const log = scheduler.logOf(mine)
    const files = disk.filesOf(mine)
    let receiver: Receiver | undefined
    const opened = await openRecordLog(folder, files, isLongAt)
    const pieces = await openPolicyFiles(
      policyFolder(settings),
      '/node/pieces',
      async (piece) => receiver?.fetchBlob(piece),
      files,
    )
    const proxy = createSimulatedProxy(mine)
    const created: Agent = createAgent(
      {
        log,
        timing,
        recordLog: broken.recordLog?.(opened) ?? opened,
        policyFiles: broken.policyFiles?.(pieces) ?? pieces,
        upstreams: createUpstreams(addresses, everywhere),
        health: createHealth(),
        openConnections: 'keep',
        node: name,
        nodeKey: {} as NodeKey,
        names: noNames,
        hasRecord: async (key: RecordKey) => (nats.isConnected(mine) ? receiver?.hasRecord(key) : undefined),
        readAgain: () => receiver?.readAgain(),
        retryMs: 1_000,
      },
      proxy,
      () => created && note(created),
    )
    await proxy.start(await created.load())
    await created.loadCertificates()
    agent = created
    note(created)
    timing.every(2_000, () => note(created))
    scheduler.tell(name, `serves from its disk (applied ${created.state().applied})`)
    receiver = createReceiver(
      { nats: nats.connectionOf(mine), channels, openApi: () => nats.openApi(mine), keys, timing },
      told(mine, broken.handlers?.(created) ?? created),
    )
    const onFailure = ({ message: reason }: Error) => log.warn({ reason }, 'cannot read the NATS bucket; retrying')
    await follow({ timing, receiver, place: created.state, onFailure }, mine.ending.signal)
  }

  /** As apply.ts puts it together, without native backends and certificates. */
  function createSimulatedProxy(mine: Process) {
    const timing = scheduler.timingOf(mine)
    const log = scheduler.logOf(mine)
    const trouble = (err: unknown) => log.error({ err }, 'HAProxy problem')
    const own = haproxy.processOf(mine)
    const real = haproxy.runtimeOf(mine)
    const runtime = broken.runtime?.(real) ?? real
    const turns = createTurns()
    const claims = new Claims()
    const natives = {
      takeChanges: () => ({ changes: [], entries: nothing }),
      create: async () => nothing,
      retire() {},
      catchUp: async () => nothing,
    }
    const config = { isCurrent: async () => true, toggleNatives: () => false, write: async () => {} }
    const certificates = { prepare: async () => {}, load: async () => {}, stop() {} }
    const tenants = { isInForce: async () => true }
    const files = createMapFiles(settings, claims, config, disk.filesOf(mine), timing)
    const loading = createLoading({
      timing,
      runtime,
      haproxy: own,
      claims,
      natives,
      config,
      files,
      certificates,
      tenants,
      trouble,
    })
    const lifetime = createLifetime(
      {
        ...{ timing, haproxy: own, files, certificates, turns, trouble },
        fallBack: loading.fallBack,
        started: loading.catchUpNatives,
        readHealth: async () => {},
      },
      {},
    )
    const { isOver } = lifetime
    const maps = createMapEnforcement({ runtime, haproxy: own, claims, natives, config, files, loading, isOver })
    const comparison = createComparison(
      { timing, runtime, claims, turns, loading, isOver, trouble, differencesOfOthers: async () => [] },
      { onDifferences: (found) => scheduler.tell(name, `finds ${found.length} differences in HAProxy`) },
    )
    return {
      start: (all: Iterable<Entry>) =>
        turns.next(async () => {
          await maps.start(all)
          lifetime.begin()
          comparison.begin()
        }),
      apply: (change: Change) => turns.next(() => maps.apply(change)),
      shadowed: () => undefined,
      closeSessions: async () => 0,
    }
  }

  /** What the node hears, for the story. */
  function told(mine: Process, handlers: Handlers): Handlers {
    if (!scheduler.isTraced) return handlers
    const tell = (what: string) => scheduler.tell(mine.name, what)
    const about = ({ after, settled, complete, floor, live }: Progress) =>
      `after ${after} up to ${settled}${complete ? `, bucket complete, floor ${floor}` : ''}${live ? ', with digest' : ''}`
    return {
      ...handlers,
      opened(made, resumed) {
        tell(resumed ? 'reads on in the bucket' : 'reads the bucket from its beginning')
        handlers.opened(made, resumed)
      },
      announced(batch) {
        const keys = batch.records.map(({ key, generation, value }) => `${key}@${generation}${value ? '' : ' gone'}`)
        tell(`hears a batch: ${about(batch.progress)}: ${keys.join(', ') || 'nothing'}`)
        handlers.announced(batch)
      },
      entry(entry) {
        const { progress, record, read, pending } = entry
        const what = progress
          ? `progress ${about(progress)}`
          : record
            ? `${record.key}@${record.generation}`
            : 'something else'
        tell(`reads revision ${read.revision}, ${pending} to come: ${what}`)
        handlers.entry(entry)
      },
    }
  }

  function start(): void {
    if (process?.isAlive) return
    const mine = scheduler.start(name)
    process = mine
    agent = undefined
    scheduler.tell(name, 'the agent starts')
    boot(mine).catch((error: Error) => {
      if (!mine.isAlive) return
      scheduler.crash(mine, `the agent ends: ${error.message}`)
      scheduler.at(restartAfterMs, undefined, () => process === mine && start())
    })
  }

  function crash(why: string): void {
    if (process) scheduler.crash(process, why)
    agent = undefined
  }

  const node = {
    name,
    wave,
    disk,
    haproxy,
    start,
    crash,
    process: () => process,
    agent: () => agent,
    reported: () => reported,
    shown: () => shown,
    refusals: () => agent?.state().refusals ?? [],
    losePower(): void {
      crash('the machine loses power')
      haproxy.die()
      disk.losePower()
    },
    /** Another machine under the same name. */
    replace(): void {
      crash('the machine is replaced by an empty one')
      haproxy.die()
      disk.wipe()
      shown = new Map()
      reported = { applied: 0, refused: new Set() }
    },
    recover(): void {
      disk.setSpace('free')
      disk.setFailing(false)
      haproxy.refuse(0)
      haproxy.lose(0)
      if (process) {
        process.pausedUntil = 0
        process.skewMs = 0
      }
    },
    hasFile: (hash: string, bytes: number): boolean => disk.has(`${policyFolder(settings)}/${hash}`, bytes),
  }
  return node
}
export type Node = ReturnType<typeof createNode>

/** Backends are addresses here, and all of them may be dialed. */
const addresses = {
  prepare: async () => {},
  resolve: (_key: string, record: { host: string }) => ({ ...record, address: record.host }),
  forget() {},
  unresolved: () => 0,
} as unknown as Parameters<typeof createUpstreams>[0]
const everywhere = { fault: () => undefined, refresh: () => false } as unknown as Parameters<typeof createUpstreams>[1]
const noNames = {
  taken: () => none,
  served: () => new Map(),
  takenUntil: () => Number.POSITIVE_INFINITY,
  takenPem: async () => undefined,
  lookForFiles: async () => {},
  serve: async () => [],
}
const none: ReadonlyMap<string, string> = new Map()
