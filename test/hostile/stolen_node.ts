// What an attacker with the NATS password of one node tries.
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { jetstreamManager } from '@nats-io/jetstream'
import { connect, headers, type MsgHdrs, type NatsConnection } from '@nats-io/transport-node'
import { readBucket } from '../../src/agent/intake/bucket_reader.ts'
import { apiPrefix, type Channels, defaultChannels, inboxOf, wakeSubject } from '../../src/distribution/channels.ts'
import { newUuid } from '../../src/kernel/ids.ts'
import { systemTiming } from '../../src/kernel/system_timing.ts'
import type { Scope } from '../harness/control_plane.ts'

const root = new URL('../..', import.meta.url).pathname
/** With all nodes in the account of the control plane, as it was shipped until 0.2. */
export const sharedAccountConf = join(root, 'test/upgrade/authorization-0.2.conf')

/** The shipped file with a second node: the block of edge-1, copied as the file says. */
export async function withSecondNode(folder: string): Promise<string> {
  const shipped = await readFile(join(root, 'deploy/nats/authorization.conf'), 'utf8')
  const [block = ''] = /^ {2}edge-1 \{[\s\S]*?^ {2}\}\n/m.exec(shipped) ?? []
  const copy = block.replaceAll('edge-1', 'edge-2').replaceAll('EDGE_1', 'EDGE_2')
  const file = join(folder, 'authorization.conf')
  await writeFile(file, shipped.replace(block, `${block}\n${copy}`))
  return file
}

export async function connectAs(scope: Scope, servers: string, user: string): Promise<NatsConnection> {
  const nats = await connect({ servers, user, pass: user, inboxPrefix: inboxOf(user) })
  scope.after(() => nats.close())
  return nats
}

const kv = (bucket: string) => `KV_${bucket}`

/** Everything that a node of a cell may ask, under either name of the API, and what only the control plane may. */
const subjectsOf = ({ records, blobs, batches, watches, ...sent }: Channels, own: string) => [
  ...[sent.reports, sent.requests, sent.tail].flatMap((subjectOf) => [subjectOf(own), subjectOf('edge-2')]),
  ...[apiPrefix, '$JS.API'].flatMap((prefix) => [
    `${prefix}.STREAM.INFO.${kv(records)}`,
    `${prefix}.STREAM.INFO.${kv(blobs)}`,
    `${prefix}.STREAM.MSG.GET.${kv(records)}`,
    `${prefix}.STREAM.MSG.GET.${kv(blobs)}`,
    `${prefix}.DIRECT.GET.${kv(records)}`,
    `${prefix}.DIRECT.GET.${kv(blobs)}.$KV.${blobs}.x`,
    `${prefix}.STREAM.DELETE.${kv(records)}`,
    `${prefix}.STREAM.PURGE.${kv(records)}`,
  ]),
  `$KV.${records}.tcp.x`,
  batches,
  watches,
]

const report = { node: 'edge-1', version: '1', startedAt: new Date().toISOString(), applied: 0, records: 0 }
/** Each has an answer: a record, a batch, nothing found, an error, `kept`. */
const bodies = [
  '',
  '{}',
  JSON.stringify({ seq: 999_999 }),
  JSON.stringify({ seq: 1, next_by_subj: `$KV.${defaultChannels.records}.>` }),
  JSON.stringify({ seq: 1, batch: 5 }),
  JSON.stringify({ ...report, refusals: [], hits: [] }),
  JSON.stringify({ node: 'edge-1', batch: newUuid(), dropped: [], requests: [] }),
]

/** Where answers would do harm, the records of the bucket first. */
const repliesTo = (keys: readonly string[]): string[] => [
  ...keys.map((key) => `$KV.${defaultChannels.records}.${key}`),
  `$KV.${defaultChannels.records}.tcp.new`,
  `$KV.${defaultChannels.blobs}.${'0'.repeat(64)}`,
  ...['DELETE', 'PURGE', 'UPDATE', 'CREATE', 'MSG.DELETE', 'SNAPSHOT', 'PEER.REMOVE'].flatMap((call) => [
    `$JS.API.STREAM.${call}.${kv(defaultChannels.records)}`,
    `${apiPrefix}.STREAM.${call}.${kv(defaultChannels.records)}`,
  ]),
  `$JS.API.CONSUMER.CREATE.${kv(defaultChannels.records)}`,
  `$JS.API.CONSUMER.DURABLE.CREATE.${kv(defaultChannels.records)}.mine`,
  `$JS.ACK.${kv(defaultChannels.records)}.c.1.1.1.1.0@$KV.${defaultChannels.records}.tcp.new`,
  ...[defaultChannels.batches, defaultChannels.watches, wakeSubject, 'gatehouse.anything'],
  ...[defaultChannels.reports, defaultChannels.requests, defaultChannels.tail].flatMap((subjectOf) => [
    subjectOf('edge-1'),
    subjectOf('edge-2'),
  ]),
  ...['_INBOX_edge-2.x', '_INBOX.x.y', '_R_.x', '_GR_.x.y', '$SYS.REQ.SERVER.PING', '$SYS.REQ.CLAIMS.UPDATE'],
]

const withHeader = (name: string, value: string): MsgHdrs => {
  const all = headers()
  all.set(name, value)
  return all
}
const headersToTry = [
  undefined,
  withHeader('Nats-Trace-Dest', `$KV.${defaultChannels.records}.tcp.trace`),
  withHeader('KV-Operation', 'PURGE'),
]

/**
 * One message for every combination of what is asked, of the default cell or another one, and where the answer would do harm
 * in the default cell. Resolves to their number when the server has taken in the last of them.
 */
export async function tryEverything(
  node: NatsConnection,
  keys: readonly string[],
  asked: Channels = defaultChannels,
  own = 'edge-1',
): Promise<number> {
  const replies = repliesTo(keys)
  let sent = 0
  for (const subject of subjectsOf(asked, own))
    for (const body of bodies) {
      for (const reply of replies)
        for (const each of headersToTry) {
          node.publish(subject, body, { reply, ...(each && { headers: each }) })
          sent++
        }
      await node.flush()
    }
  return sent
}

/** A bucket byte for byte, with its revisions and the time at which it was created; undefined when it is gone. */
export async function contentsOf(control: NatsConnection, records: string = defaultChannels.records) {
  const api = await jetstreamManager(control, { checkAPI: false })
  const info = await api.streams.info(kv(records)).catch(() => undefined)
  if (!info) return undefined
  const { created, state } = info
  const entries: { key: string; revision: number; text: string }[] = []
  const reading = new AbortController()
  if (state.messages > 0)
    for await (const { key, revision, text, pending } of readBucket(api, records, 1, systemTiming, reading.signal)) {
      entries.push({ key, revision, text })
      if (pending === 0) reading.abort()
    }
  return { created, lastRevision: state.last_seq, consumers: state.consumer_count, entries }
}
