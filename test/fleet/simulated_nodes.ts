// A program with many nodes: agents as they are, with their own connections, keys and disks, and no HAProxy behind them.
// Its parent names the folders of nodes that have joined, and asks it when they had applied a change.

import { join } from 'node:path'
import { createAgent } from '../../src/agent/agent.ts'
import { openCredentials } from '../../src/agent/disk/credentials.ts'
import { diskFiles } from '../../src/agent/disk/files.ts'
import { openNodeKey } from '../../src/agent/disk/node_key.ts'
import { openPolicyFiles } from '../../src/agent/disk/policy_files.ts'
import { openRecordLog, type RecordLog } from '../../src/agent/disk/record_log.ts'
import type { Enforcer } from '../../src/agent/enforcement.ts'
import { createAllowed } from '../../src/agent/reports/allowed.ts'
import { createHealth } from '../../src/agent/reports/health.ts'
import { createHits } from '../../src/agent/reports/hits.ts'
import { createRuleHits } from '../../src/agent/reports/rule_hits.ts'
import { createUpstreams } from '../../src/agent/upstreams/upstreams.ts'
import { createLink, type Link } from '../../src/commands/edge_node/link.ts'
import { readTrustedKeys } from '../../src/commands/edge_node/settings.ts'
import { joinedEnvironment, readEdgeConfig } from '../../src/config/config.ts'
import { version } from '../../src/config/version.ts'
import type { Log } from '../../src/kernel/log.ts'
import { systemTiming } from '../../src/kernel/system_timing.ts'
import { marksIn } from './marks.ts'

/** What the parent asks: nodes to start, when all nodes of a cell had applied a generation, or which ones had other records. */
export type Asked =
  | { id: number; start: string[] }
  | { id: number; cell: string; generation: number }
  | { id: number; state: true }
  | { id: number; remember: true }
  | { id: number; keys: readonly string[] }
  | { id: number; marks: true }
export type Answered = { id: number; at?: number; ready?: number; errors?: number; had?: number; marks?: string[] }

/** How many applied changes are kept of each node: a question may come after the answer. */
const remembered = 64

/** Takes every change, like a HAProxy that never fails. */
const noProxy: Enforcer = {
  apply: async () => {},
  shadowed: () => undefined,
  closeSessions: async () => 0,
}
const noNames = {
  taken: () => new Map<string, string>(),
  served: () => new Map(),
  takenUntil: () => Number.POSITIVE_INFINITY,
  takenPem: async () => undefined,
  lookForFiles: async () => {},
  serve: async () => [],
}
/** Backends are not dialed here, and all of them may be. */
const addresses = {
  prepare: async () => {},
  resolve: (_key: string, record: { host: string }) => ({ ...record, address: record.host }),
  forget() {},
  unresolved: () => 0,
} as unknown as Parameters<typeof createUpstreams>[0]
const everywhere = { fault: () => undefined, refresh: () => false } as unknown as Parameters<typeof createUpstreams>[1]
const noRequests = {
  seen: { connect() {} },
  trafficCounting: {},
} as unknown as Parameters<Link['start']>[0]['requests']

type Node = {
  cell: string
  isReady: () => boolean
  reached: (generation: number) => number | undefined
  remember: () => void
  /** Records that have had another value since then. */
  changed: ReadonlySet<string>
  marks: ReadonlySet<string>
}

const nodes: Node[] = []
const waiting = new Set<() => void>()
let errors = 0
/** Warnings are expected: the connection to NATS is lost on purpose. The first few errors are shown. */
const log: Log = {
  info() {},
  warn() {},
  error(fields, message) {
    if (errors++ < 10) console.error(message, fields)
  },
}
const now = (): number => performance.timeOrigin + performance.now()

async function startNode(folder: string): Promise<Node> {
  const config = readEdgeConfig(joinedEnvironment({ GATEHOUSE_EDGE_FOLDER: folder }))
  const { GATEHOUSE_EDGE_NODE: node, GATEHOUSE_EDGE_CELL: cell, GATEHOUSE_NATS_CREDENTIALS_FILE: file } = config
  const startedAt = new Date().toISOString()
  const nodeKey = await openNodeKey(folder)
  const link = createLink(
    config,
    log,
    await openCredentials({ file, node, log, files: diskFiles, timing: systemTiming }),
  )
  const health = createHealth()
  const applied: { generation: number; at: number }[] = []
  const { recordLog, remember, changed, marks } = observed(await openRecordLog(folder))
  const agent = createAgent(
    {
      ...{ log, timing: systemTiming, health, node, nodeKey, names: noNames, openConnections: 'keep', retryMs: 1_000 },
      recordLog,
      policyFiles: await openPolicyFiles(join(folder, 'policies'), join(folder, 'pieces'), link.fetchBlob),
      upstreams: createUpstreams(addresses, everywhere),
      hasRecord: link.hasRecord,
      readAgain: link.readAgain,
    },
    noProxy,
    note,
  )
  function note(): void {
    const generation = agent.state().applied
    if (generation !== applied.at(-1)?.generation) applied.push({ generation, at: now() })
    if (applied.length > remembered) applied.shift()
    link.reportSoon()
    for (const look of waiting) look()
  }
  await agent.load()
  await agent.loadCertificates()
  note()
  link.start({
    ...{ agent, health, requests: noRequests, keys: readTrustedKeys(config, 'GATEHOUSE_EDGE_TRUSTED_KEYS') },
    ...{ hits: createHits(), allowed: createAllowed(), ruleHits: createRuleHits() },
    current: () => ({ node, version, startedAt, nodeKey: nodeKey.publicKey, ...agent.state() }),
  })
  return {
    cell,
    isReady: () => agent.state().ready,
    reached: (wanted) => applied.find(({ generation }) => generation >= wanted)?.at,
    remember,
    changed,
    marks,
  }
}

/** Notes no values before it is asked to remember: they take as much memory as the records. */
function observed(recordLog: RecordLog) {
  const textOf = (value: unknown) => JSON.stringify(value ?? null)
  let remembered: Map<string, string> | undefined
  const changed = new Set<string>()
  const marks = new Set<string>()
  const noteMarks = (records: Iterable<{ value?: unknown }>) => {
    for (const { value } of records) for (const mark of marksIn(textOf(value))) marks.add(mark)
  }
  noteMarks(recordLog.records.values())
  return {
    changed,
    marks,
    remember(): void {
      remembered = new Map([...recordLog.records].map(([key, { value }]) => [key, textOf(value)]))
      changed.clear()
    },
    recordLog: {
      ...recordLog,
      append(...[records, ...rest]: Parameters<RecordLog['append']>) {
        noteMarks(records)
        for (const { key, value } of remembered ? records : [])
          if (textOf(value) !== (remembered?.get(key) ?? 'null')) changed.add(key)
        return recordLog.append(records, ...rest)
      },
    },
  }
}

/** When the last of them had it. */
function whenApplied(cell: string, generation: number): Promise<number> {
  const ofCell = nodes.filter((node) => node.cell === cell)
  return new Promise((resolve) => {
    function look(): void {
      const times = ofCell.map(({ reached }) => reached(generation))
      if (times.includes(undefined)) return
      waiting.delete(look)
      resolve(Math.max(0, ...(times as number[])))
    }
    waiting.add(look)
    look()
  })
}

async function answer(asked: Asked): Promise<Omit<Answered, 'id'>> {
  if ('start' in asked) {
    for (const folder of asked.start) nodes.push(await startNode(folder))
    return {}
  }
  if ('remember' in asked) for (const { remember } of nodes) remember()
  if ('keys' in asked) return { had: nodes.filter(({ changed }) => asked.keys.some((key) => changed.has(key))).length }
  if ('marks' in asked) return { marks: [...new Set(nodes.flatMap(({ marks }) => [...marks]))] }
  if ('cell' in asked) return { at: await whenApplied(asked.cell, asked.generation) }
  return { ready: nodes.filter(({ isReady }) => isReady()).length, errors }
}

process.on('message', async (asked: Asked) => {
  process.send?.({ id: asked.id, ...(await answer(asked)) } satisfies Answered)
})
process.on('disconnect', () => process.exit())
