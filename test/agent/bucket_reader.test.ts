// The reader of the bucket is what makes a node complete: it must survive every failure of its connection.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import { Kvm } from '@nats-io/kv'
import { connect, type NatsConnection } from '@nats-io/transport-node'
import { startNats } from '../../dev/nats.ts'
import { readBucket } from '../../src/agent/intake/bucket_reader.ts'
import { systemTiming } from '../../src/kernel/system_timing.ts'
import { loadScaledTimeout } from '../harness/load_scaled_timeout.ts'
import { poll } from '../harness/poll.ts'
import { startTcpProxy } from '../harness/tcp_proxy.ts'

const bucket = 'some'
const entries = 1_500
const value = 'x'.repeat(1_000)

/** A full bucket, and a connection to it through a network that can be disturbed. */
async function startBucket(t: TestContext) {
  const nats = await startNats()
  t.after(() => nats.stop())
  const { GATEHOUSE_NATS_USER: user, GATEHOUSE_NATS_PASSWORD: pass } = nats.controlPlane
  const direct = await connect({ servers: nats.url, user, pass })
  t.after(() => direct.close())
  const kv = await new Kvm(jetstream(direct)).create(bucket)
  const timeout = loadScaledTimeout(30_000)
  await Promise.all(Array.from({ length: entries }, (_, index) => kv.put(`key-${index}`, value, { timeout })))
  const network = await startTcpProxy(t, nats.url)
  const { port } = new URL(network.url)
  // The server tells clients its own address, which would lead around the network.
  const connection = await connect({
    servers: `127.0.0.1:${port}`,
    user,
    pass,
    ignoreClusterUpdates: true,
    reconnectTimeWait: 50,
  })
  t.after(() => connection.close())
  return { network, connection, api: await jetstreamManager(connection, { checkAPI: false }) }
}

test('a batch that breaks off half-way is read again, and every entry arrives once', async (t) => {
  const { network, api } = await startBucket(t)
  const reading = new AbortController()
  network.breakAfterBytes(400_000)
  const keys: string[] = []
  for await (const { key, pending } of readBucket(api, bucket, 1, systemTiming, reading.signal)) {
    keys.push(key)
    if (pending === 0) reading.abort()
  }
  assert.equal(keys.length, entries)
  assert.equal(new Set(keys).size, entries)
})

for (const [how, end] of [
  ['its signal is aborted', (reading: AbortController) => reading.abort()],
  // The library never ends a batch whose connection is closed.
  ['its connection is closed', (_: AbortController, connection: NatsConnection) => void connection.close()],
] as const)
  test(`reading ends when ${how}, also in the middle of a batch`, async (t) => {
    const { network, connection, api } = await startBucket(t)
    const reading = new AbortController()
    const before = network.sent()
    let isOver = false
    void Array.fromAsync(readBucket(api, bucket, 1, systemTiming, reading.signal))
      .catch(() => {})
      .finally(() => {
        isOver = true
      })
    await poll(() => network.sent() - before > 100_000, Boolean, { everyMs: 1 })
    network.silence()
    end(reading, connection)
    await poll(() => isOver)
  })
