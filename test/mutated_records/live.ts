import assert from 'node:assert/strict'
import { join } from 'node:path'
import { createAgent } from '../../src/agent/agent.ts'
import { openPolicyFiles } from '../../src/agent/disk/policy_files.ts'
import { openRecordLog } from '../../src/agent/disk/record_log.ts'
import { type Entry, entriesOf } from '../../src/agent/haproxy/maps/entries.ts'
import { ask } from '../../src/agent/haproxy/process/runtime.ts'
import { policyFolder } from '../../src/agent/haproxy/settings.ts'
import { createSealedReader, type Refused } from '../../src/agent/intake/sealed_reader.ts'
import { createHealth } from '../../src/agent/reports/health.ts'
import { openDns } from '../../src/agent/upstreams/dns.ts'
import { createUpstreamPolicy } from '../../src/agent/upstreams/policy.ts'
import { openResolver } from '../../src/agent/upstreams/resolver.ts'
import { createUpstreams } from '../../src/agent/upstreams/upstreams.ts'
import { newNodeKey, readNodeKey } from '../../src/distribution/delivery.ts'
import { type EdgeRecord, kindOf, type RecordKey } from '../../src/distribution/records.ts'
import { seal } from '../../src/distribution/signature.ts'
import { checkedCidr } from '../../src/kernel/ip/canonical_cidr.ts'
import { compilePolicy } from '../../src/kernel/ip/ranges.ts'
import { systemTiming } from '../../src/kernel/system_timing.ts'
import { type Edge, startEdge } from '../agent/proxy_harness.ts'
import type { Scope } from '../harness/control_plane.ts'
import { poll } from '../harness/poll.ts'
import { keys, signer } from './pure.ts'

type Sent = { key: RecordKey; payload: object }
const bucket = 'a bucket'

/** The real agent, from the signature to HAProxy. Only NATS is left out: what it would bring is handed over. */
export async function startNode(scope: Scope) {
  const edge = await startEdge(scope, { certificates: ['*.example.com'] })
  const folder = join(edge.settings.folder, 'node')
  const errors: unknown[] = []
  const log = { info() {}, warn() {}, error: (fields: object, message: string) => errors.push([message, fields]) }
  const recordLog = await openRecordLog(folder)
  const resolver = await openResolver({
    ...{ file: join(folder, 'addresses.json'), dns: await openDns({ servers: ['127.0.0.1:9'] }) },
    ...{ onChange() {}, onError: (error: Error) => errors.push(error) },
  })
  const policy = createUpstreamPolicy({
    ...{ deny: compilePolicy([]), ownPorts: [] },
    allow: compilePolicy([{ cidr: checkedCidr('127.0.0.0/8'), action: 'allow' }]),
  })
  const agent = createAgent(
    {
      ...{ log, timing: systemTiming, recordLog, upstreams: createUpstreams(resolver, policy) },
      policyFiles: await openPolicyFiles(policyFolder(edge.settings), join(folder, 'pieces'), async () => undefined),
      ...{ health: createHealth(), openConnections: 'close', node: 'edge-1', names: edge.proxy.names },
      nodeKey: readNodeKey(newNodeKey().privateKey),
      ...{ hasRecord: async () => true, readAgain: () => assert.fail('nothing is to be read again'), retryMs: 100 },
    },
    edge.proxy,
    () => {},
  )
  scope.after(async () => {
    await agent.stop()
    await resolver.stop()
    await recordLog.close()
  })

  const refusedOnArrival: Refused[] = []
  const reader = createSealedReader(keys, (refused) => {
    refusedOnArrival.push(refused)
    agent.refused(refused)
  })
  let [generation, revision] = [0, 0]
  agent.opened(bucket, false)

  return {
    ...{ edge, agent, errors },
    known: recordLog.records as ReadonlyMap<RecordKey, EdgeRecord>,
    /** On disk too. */
    refused: recordLog.refused,
    nextGeneration: () => ++generation,
    /** As they stand in the bucket, with a progress behind them. Resolves to what was refused when all of it is done. */
    async send(records: readonly Sent[]): Promise<Refused[]> {
      refusedOnArrival.length = 0
      for (const { key, payload } of records) {
        const read = { bucket, revision: ++revision }
        agent.entry({ ...reader.readRecord(seal(payload, signer), key), read, pending: 1 })
      }
      const said = { after: 0, settled: generation, bucket, complete: bucket }
      const progress = reader.readProgress(seal(said, signer)) ?? assert.fail('the progress is sound')
      agent.entry({ progress, read: { bucket, revision: ++revision }, pending: 0 })
      await poll(
        () => agent.state(),
        ({ applied }) => applied === generation,
        { everyMs: 5, withinSeconds: 20 },
      )
      return [...refusedOnArrival]
    },
  }
}
export type LiveNode = Awaited<ReturnType<typeof startNode>>

/** What these become depends on nothing but the record. */
const plainKinds = new Set([
  'tcp',
  'https',
  'mutual_tls',
  'route',
  'response',
  'restrictions',
  'challenge',
  'cell_nodes',
])

/** HAProxy has exactly what the records that the node knows say. */
export async function assertInForce({ edge, known }: Pick<LiveNode, 'edge' | 'known'>): Promise<void> {
  const entries = [...known.values()]
    .filter(({ key }) => plainKinds.has(kindOf(key)))
    .flatMap(({ key, value }) => entriesOf(key, value))
  for (const map of new Set(entries.map((entry) => entry.map))) {
    const expected = entries.filter((entry) => entry.map === map).map(({ key, value }: Entry) => `${key} ${value}`)
    assert.deepEqual((await shownIn(edge, map)).sort(), expected.sort(), map)
  }
}

async function shownIn({ settings }: Edge, map: string): Promise<string[]> {
  const shown = await ask(settings.runtimeSocket, `show map ${join(settings.folder, `maps/${map}.map`)}`)
  return shown
    .split('\n')
    .filter(Boolean)
    .map((line) => line.replace(/^0x[0-9a-f]+ /, ''))
}
