// Row 17 of the security review: a stolen node password makes nothing in NATS, and reaches no other node.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { AckPolicy, jetstream, jetstreamManager } from '@nats-io/jetstream'
import { Kvm } from '@nats-io/kv'
import { connect, type NatsConnection } from '@nats-io/transport-node'
import { startNats } from '../../dev/nats.ts'
import { type ReadEntry, readBucket } from '../../src/agent/intake/bucket_reader.ts'
import { openBucketApi } from '../../src/distribution/bucket_api.ts'
import { apiPrefix, defaultChannels, inboxOf } from '../../src/distribution/channels.ts'
import { systemTiming } from '../../src/kernel/system_timing.ts'
import { poll } from '../harness/poll.ts'

const nats = await startNats()
after(() => nats.stop())
const open = async (user: string, inboxPrefix?: string): Promise<NatsConnection> => {
  const connection = await connect({ servers: nats.url, user, pass: user, ...(inboxPrefix && { inboxPrefix }) })
  after(() => connection.close())
  return connection
}
const control = await open('control-plane')
const node = await open('edge-1', inboxOf('edge-1'))
const stream = `KV_${defaultChannels.records}`
const bucket = await new Kvm(jetstream(control)).create(defaultChannels.records, { history: 1 })
const { consumers } = await jetstreamManager(control)

test('row 17: with the shipped accounts a node can neither create, see nor delete consumers', async () => {
  // As an older node, or the control plane itself, has one.
  await consumers.add(stream, { name: 'other', ack_policy: AckPolicy.None, deliver_subject: '_INBOX_other.1' })
  const heard: string[] = []
  control.subscribe(defaultChannels.batches, { callback: (_, message) => void heard.push(message.string()) })
  await control.flush()
  const push = { name: 'mine', ack_policy: 'none', deliver_policy: 'all', deliver_subject: defaultChannels.batches }
  const create = JSON.stringify({ stream_name: stream, config: push })
  for (const [api, body = ''] of [
    ['CREATE', create],
    [`CREATE.${stream}`, create],
    [`CREATE.${stream}.mine`, create],
    [`CREATE.${stream}.mine.$KV.${defaultChannels.records}.>`, create],
    [`DURABLE.CREATE.${stream}.mine`, create],
    [`DELETE.${stream}.other`],
    [`INFO.${stream}.other`],
    [`NAMES.${stream}`],
    [`LIST.${stream}`],
    [`PAUSE.${stream}.other`, '{}'],
    [`RESET.${stream}.other`, '{}'],
    [`MSG.NEXT.${stream}.other`],
  ] as const) {
    node.publish(`$JS.API.CONSUMER.${api}`, body, { reply: `${inboxOf('edge-1')}.answer` })
    const asked = node.request(`${apiPrefix}.CONSUMER.${api}`, body)
    await assert.rejects(asked, /no responders/)
  }
  await bucket.put('tcp.x', 'sealed')
  await control.flush()
  const names = (await Array.fromAsync(await consumers.list(stream))).map(({ name }) => name)
  assert.deepEqual([names, heard], [['other'], []])
})

test('row 17: a node reads the whole bucket in order without a consumer, detects the end, and then follows it', async () => {
  const count = 2_500
  for (let i = 0; i < count; i += 100)
    await Promise.all(Array.from({ length: 100 }, (_, k) => bucket.put(`r.${(i + k) % 2_000}`, `${i + k}`)))
  const ending = new AbortController()
  const entries: ReadEntry[] = []
  const reading = (async () => {
    for await (const entry of readBucket(
      await openBucketApi(node, defaultChannels),
      defaultChannels.records,
      1,
      systemTiming,
      ending.signal,
    ))
      entries.push(entry)
  })()
  await poll(() => entries.at(-1)?.pending === 0)
  const values = new Map(entries.map(({ key, text }) => [key, text]))
  assert.equal(values.size, 2_001)
  for (let i = 0; i < 2_000; i++) assert.equal(values.get(`r.${i}`), String(i < 500 ? i + 2_000 : i))
  const revisions = entries.map(({ revision }) => revision)
  assert.deepEqual(
    revisions,
    revisions.toSorted((a, b) => a - b),
  )
  assert.equal(entries.filter(({ pending }) => pending === 0).length, 1)

  const revision = await bucket.put('r.7', 'changed')
  await poll(() => entries.at(-1)?.revision === revision)
  assert.deepEqual(entries.at(-1), { key: 'r.7', revision, text: 'changed', pending: 0 })
  ending.abort()
  await reading

  // From where it was left, only what came since.
  const again = new AbortController()
  for await (const entry of readBucket(
    await openBucketApi(node, defaultChannels),
    defaultChannels.records,
    revision,
    systemTiming,
    again.signal,
  )) {
    assert.deepEqual([entry.key, entry.pending], ['r.7', 0])
    again.abort()
  }
})
