// What the control plane tells edge nodes about backends of every kind.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { jetstream } from '@nats-io/jetstream'
import { Kvm } from '@nats-io/kv'
import { connect } from '@nats-io/transport-node'
import { createReceiver } from '../../src/agent/intake/receiver.ts'
import { openBucketApi } from '../../src/distribution/bucket_api.ts'
import { defaultChannels, type Progress, progressKey } from '../../src/distribution/channels.ts'
import { seal, trustedKeys } from '../../src/distribution/signature.ts'
import { systemTiming } from '../../src/kernel/system_timing.ts'
import { activeSigner } from '../../src/publisher/signing_keys.ts'
import { secretsBox } from '../harness/control_plane.ts'
import { startInstallation } from '../harness/edge.ts'
import { make, newBackend, newRoute, newTcpEdge } from '../harness/fixtures.ts'
import { poll } from '../harness/poll.ts'
import { statusOf, wholeFile } from './live_harness.ts'

const file = wholeFile()
const installation = await startInstallation(file)
const { admin, nats } = installation
const edge = await installation.startEdge()
const connection = await connect({
  servers: nats.url,
  user: nats.controlPlane.GATEHOUSE_NATS_USER,
  pass: nats.controlPlane.GATEHOUSE_NATS_PASSWORD,
})
file.after(() => connection.close())
const bucket = await new Kvm(jetstream(connection)).open(defaultChannels.records)
const account = admin.accountId

/** What the bucket has under the key; undefined when there has never been anything. */
async function payloadOf<Payload>(key: string): Promise<Payload | undefined> {
  const entry = await bucket.get(key)
  return entry ? JSON.parse(entry.json<{ payload: string }>().payload) : undefined
}

/** Makes a change, waits until node and bucket have it, and returns the value of the record in the bucket. */
async function after(method: string, uri: string, body: object | undefined, key: string): Promise<unknown> {
  const answer = await admin(method, `${uri}?wait=applied`, body)
  assert.ok(answer.status < 300, answer.text)
  assert.equal(answer.headers.get('service-applied'), '1/1')
  // A plain message reaches the node before the record is in the bucket.
  const generation = Number(answer.headers.get('service-generation'))
  await poll(
    () => payloadOf<Progress>(progressKey),
    (progress) => progress !== undefined && progress.settled >= generation,
  )
  return (await payloadOf<{ value: unknown }>(key))?.value
}

const [first, second] = [await newBackend(admin), await newBackend(admin)]
const response = await make(admin, '/backends/http_response', {
  status_code: 503,
  headers: { 'Retry-After': '60', 'X-One': '1' },
  body: 'Back at noon',
})

test('a health check is in the record only while there is one', async () => {
  const { id, uri } = await newBackend(admin)
  const key = `backend.${id}`
  const plain = { host: 'app.internal', port: 8080, tls: false }
  const numbers = { interval_seconds: 10, healthy_after: 2, unhealthy_after: 3 }
  for (const [sent, expected] of [
    [{ type: 'tcp' }, { ...plain, health_check: { type: 'tcp', ...numbers } }],
    [{ type: 'http' }, { ...plain, health_check: { type: 'http', ...numbers, path: '/' } }],
    [null, plain],
  ] as const)
    assert.deepEqual(await after('PATCH', uri, { health_check: sent }, key), expected)
})

test('a weighted backend is drained member by member with ?wait=applied, and is a tombstone when it is gone', async () => {
  const { id, uri } = await make(admin, '/backends/weighted', { backends: { [second.id]: 1, [first.id]: 5 } })
  const key = `weighted.${id}`
  for (const weights of [{ [second.id]: 0, [first.id]: 5 }, { [second.id]: 1, [first.id]: 0 }, { [first.id]: 7 }])
    assert.deepEqual(await after('PATCH', uri, { backends: weights }, key), {
      account,
      backends: Object.entries(weights),
    })
  assert.equal(await after('DELETE', uri, undefined, key), null)
})

test('a failover backend names its servers in order and its response apart', async () => {
  const { id, uri } = await make(admin, '/backends/failover', { backends: [first.id] })
  const key = `failover.${id}`
  for (const [members, expected] of [
    [[second.id, first.id], { account, backends: [second.id, first.id] }],
    [[first.id, response.id], { account, backends: [first.id], response: response.id }],
    [[response.id], { account, backends: [], response: response.id }],
  ] as const)
    assert.deepEqual(await after('PATCH', uri, { backends: members }, key), expected)
  assert.equal(await after('DELETE', uri, undefined, key), null)
})

test('a response travels whole, and edges and routes name backends of every kind', async () => {
  const key = `response.${response.id}`
  assert.deepEqual(await after('PATCH', response.uri, { status_code: 502 }, key), {
    status: 502,
    headers: [
      ['Retry-After', '60'],
      ['X-One', '1'],
    ],
    body: 'Back at noon',
  })
  const weighted = await make(admin, '/backends/weighted', { backends: { [first.id]: 1 } })
  const failover = await make(admin, '/backends/failover', { backends: [first.id] })
  const [route, tcp] = [await newRoute(admin), await newTcpEdge(admin)]
  for (const { id } of [weighted, failover, response, first]) {
    const value = await after('PUT', `${route.uri}/backend`, { backend_id: id }, `route.${route.id}`)
    assert.equal((value as { backend: string }).backend, id)
  }
  for (const { id } of [weighted, failover]) {
    const value = await after('PUT', `${tcp.uri}/backend`, { backend_id: id }, `tcp.${tcp.id}`)
    assert.equal((value as { backend: string }).backend, id)
  }
})

test('a node keeps all else when a record is of a kind that its version does not know', async () => {
  const signer = await activeSigner(installation.db, secretsBox)
  const key = 'future.bkdxx_01m7ejpdmye00bh323tz5gx11a'
  await bucket.put(key, seal({ key, generation: 1, value: { color: 'red' } }, signer))
  const refusals = async () => (await statusOf(edge)).refusals as { key: string; reason: string }[]
  const [refusal] = await poll(
    async () => (await refusals()).filter((each) => each.key === key),
    (found) => found.length > 0,
  )
  assert.match(refusal?.reason ?? '', /has an unknown key/)
  const { uri, id } = await newBackend(admin)
  assert.equal(await after('DELETE', uri, undefined, `backend.${id}`), null)
})

test('a node that an older version left in the bucket reads it again from its beginning', async () => {
  const keys = trustedKeys([installation.publicKey])
  const follow = (from: { bucket: string; revision: number }) =>
    new Promise<{ resumed: boolean; bucket: string }>((resolve, reject) => {
      let resumed = false
      const receiver = createReceiver(
        {
          nats: connection,
          channels: defaultChannels,
          openApi: () => openBucketApi(connection, defaultChannels),
          keys,
          timing: systemTiming,
        },
        {
          announced: () => {},
          refused: () => {},
          opened: (_, isResumed) => {
            resumed = isResumed
          },
          isUpToDate: () => false,
          entry: ({ read }) => resolve({ resumed, bucket: read.bucket }),
        },
      )
      // Until the connection ends, with the file. By then the promise is settled.
      receiver.followBucket(from, new AbortController().signal).catch(reject)
    })
  const first = await follow({ bucket: '', revision: 0 })
  assert.equal(first.resumed, false)
  assert.deepEqual(await follow({ bucket: first.bucket, revision: 1 }), { ...first, resumed: true })
  const [ofOlderVersion = ''] = first.bucket.split(' as ')
  assert.deepEqual(await follow({ bucket: ofOlderVersion, revision: 1 }), first)
})
