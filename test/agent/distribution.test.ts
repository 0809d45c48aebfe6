import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import { Kvm } from '@nats-io/kv'
import { connect, type NatsConnection } from '@nats-io/transport-node'
import { readBucket } from '../../src/agent/intake/bucket_reader.ts'
import { openBucketApi } from '../../src/distribution/bucket_api.ts'
import { defaultChannels, progressKey } from '../../src/distribution/channels.ts'
import { createSigner, keyIdOf, newSigningKey, seal } from '../../src/distribution/signature.ts'
import { systemTiming } from '../../src/kernel/system_timing.ts'
import { activeSigner } from '../../src/publisher/signing_keys.ts'
import type { Answer } from '../harness/client.ts'
import { gatehouse } from '../harness/command.ts'
import { secretsBox, secretsKeyFile, stop } from '../harness/control_plane.ts'
import { startInstallation } from '../harness/edge.ts'
import { pause, poll } from '../harness/poll.ts'
import { dial, newGuardedEdge, startTcpUpstream, statusOf, wholeFile } from './live_harness.ts'

const file = wholeFile()
const installation = await startInstallation(file)
const { admin, nats, processes, databaseUrl } = installation
let edge = await installation.startEdge()
const upstream = await startTcpUpstream(file)
const allowed = '127.0.0.2'
const refused = '127.0.0.3'
/** The control plane after its first process was killed. */
let survivor = installation.clientFor(admin.token)
let guarded: Awaited<ReturnType<typeof newGuardedEdge>>
before(async () => {
  guarded = await newGuardedEdge(admin, edge.tcpPorts.first, upstream.port, `allow ${allowed}`)
})
const decisions = async () => [await dial(guarded.port, allowed), await dial(guarded.port, refused)]
const setRules = (...lines: string[]) =>
  admin('PUT', `/ip_policies/${guarded.policyId}/rules?wait=applied`, undefined, {
    rawBody: lines.join('\n'),
    contentType: 'text/plain',
  })
const asWanted = ['hello', undefined]

async function natsAs(who: Record<string, string>, inboxPrefix?: string): Promise<NatsConnection> {
  const connection = await connect({
    servers: nats.url,
    user: who.GATEHOUSE_NATS_USER,
    pass: who.GATEHOUSE_NATS_PASSWORD,
    ...(inboxPrefix && { inboxPrefix }),
  })
  after(() => connection.close())
  return connection
}
const bucketOf = (connection: NatsConnection) => new Kvm(jetstream(connection)).open(defaultChannels.records)
/** Everything in the bucket, by key, with who signed it. */
async function contents(connection: NatsConnection): Promise<Map<string, { signedBy: string; value: unknown }>> {
  const found = new Map()
  const bucket = await bucketOf(connection)
  for await (const key of await bucket.keys()) {
    const entry = await bucket.get(key)
    if (!entry) continue
    const { payload, key: signedBy } = entry.json<{ payload: string; key: string }>()
    found.set(key, { signedBy, value: JSON.parse(payload).value })
  }
  return found
}

test('the account of a node lets it read records and write its own report, nothing else', async () => {
  const node = await natsAs(nats.edge, '_INBOX_edge-1')
  const key = `tcp.${guarded.edge.id}`
  for await (const entry of readBucket(
    await openBucketApi(node, defaultChannels),
    defaultChannels.records,
    1,
    systemTiming,
    new AbortController().signal,
  ))
    if (entry.key === key) {
      assert.match(entry.text, /"signature"/)
      break
    }
  const kept = (await contents(await natsAs(nats.controlPlane))).get(key)
  const heard: string[] = []
  const control = await natsAs(nats.controlPlane)
  // With their bodies: the publisher may have a batch of its own to send meanwhile.
  control.subscribe('gatehouse.>', {
    callback: (_, message) => void heard.push(`${message.subject} ${message.string()}`),
  })
  await control.flush()
  for (const subject of [
    `$KV.${defaultChannels.records}.${key}`,
    `$JS.API.STREAM.PURGE.KV_${defaultChannels.records}`,
    `$JS.API.STREAM.DELETE.KV_${defaultChannels.records}`,
    `$JS.API.STREAM.UPDATE.KV_${defaultChannels.records}`,
    `$JS.API.STREAM.MSG.DELETE.KV_${defaultChannels.records}`,
    `$KV.gatehouse_blobs.${'0'.repeat(64)}`,
    `$JS.API.CONSUMER.CREATE.KV_${defaultChannels.records}.x.$KV.${defaultChannels.records}.>`,
    defaultChannels.batches,
    defaultChannels.reports('edge-2'),
  ]) {
    node.publish(subject, '{}')
  }
  node.publish(defaultChannels.reports('edge-1'), '{}')
  await node.flush()
  await poll(
    async () => heard,
    (messages) => messages.includes(`${defaultChannels.reports('edge-1')} {}`),
  )
  assert.ok(
    !heard.includes(`${defaultChannels.batches} {}`) && !heard.includes(`${defaultChannels.reports('edge-2')} {}`),
    heard.join(),
  )
  assert.deepEqual((await contents(control)).get(key), kept)
})

test('an intruder in NATS cannot open an edge: forged records are refused, reported, and change nothing', async () => {
  const control = await natsAs(nats.controlPlane)
  const stranger = newSigningKey()
  // Under the name of our key, which anyone can read in the bucket.
  const { sign } = createSigner(stranger.publicKey, stranger.privateKey)
  const forger = { keyId: keyIdOf(installation.publicKey), sign }
  const key = `tcp.${guarded.edge.id}` as const
  const [hostport] = guarded.edge.hostports
  const open = { account: admin.accountId, hostports: [hostport], backend: guarded.backend.id, policies: null }
  const forged = seal({ key, generation: 1_000_000, value: open }, forger)
  const gone = seal({ key, generation: 1_000_001, value: null }, forger)
  const progress = seal({ after: 0, settled: 2_000_000 }, forger)
  const bucket = await bucketOf(control)
  const good = await bucket.get(key)
  const nodes = () => admin('GET', '/edge_nodes')
  const isRefused = (wanted: string) => (answer: Answer) =>
    answer.body.edge_nodes[0].refusals.some((each: { key: string }) => each.key === wanted)
  for (const record of [forged, gone, '']) {
    await bucket.put(key, record)
    control.publish(defaultChannels.batches, JSON.stringify({ progress, records: [record] }))
    // The bucket keeps the last value only. The publisher may repair it before the node has read it: then we forge it again.
    if (record === forged)
      await poll(async () => {
        if ((await bucket.get(key))?.string() !== forged) await bucket.put(key, forged)
        return nodes()
      }, isRefused(key))
  }
  await bucket.put(progressKey, progress)
  await bucket.delete(key)
  const { body } = await poll(nodes, isRefused(progressKey))
  const [{ refusals, applied_generation }] = body.edge_nodes
  assert.ok(
    refusals.some((each: { key: string; reason: string }) => each.key === key && /wrong signature/.test(each.reason)),
  )
  assert.ok(applied_generation < 1_000_000)
  assert.deepEqual(await decisions(), asWanted)
  await bucket.put(key, good?.value as Uint8Array)
})

test('a replayed older record is ignored although its signature is valid', async () => {
  const control = await natsAs(nats.controlPlane)
  const bucket = await bucketOf(control)
  const key = `policy.${guarded.policyId}`
  const old = await bucket.get(key)
  const closed = await setRules('allow 127.0.0.4')
  assert.equal(closed.headers.get('service-applied'), '1/1')
  await bucket.put(key, old?.value as Uint8Array)
  const signer = await activeSigner(installation.db, secretsBox)
  assert.ok(old)
  const progress = seal({ after: 0, settled: 0 }, signer)
  control.publish(defaultChannels.batches, JSON.stringify({ progress, records: [old.string()] }))
  await control.flush()
  const { revision } = (await bucket.get(key)) ?? { revision: 0 }
  await poll(
    () => statusOf(edge),
    (status) => status.revision >= revision,
  )
  assert.deepEqual(await decisions(), [undefined, undefined])
  assert.equal(await dial(guarded.port, '127.0.0.4'), 'hello')
  await setRules(`allow ${allowed}`)
  assert.deepEqual(await decisions(), asWanted)
})

let rulesMade = 0
/** After NATS lost everything: the same decisions all the time, everything back in the bucket, and changes get through. */
async function heals(lose: () => Promise<void>): Promise<void> {
  const control = await natsAs(nats.controlPlane)
  const whole = await contents(control)
  whole.delete(progressKey)
  await lose()
  const wrong: unknown[] = []
  const watching = new AbortController()
  const watched = (async () => {
    while (!watching.signal.aborted) {
      const now = await decisions()
      if (JSON.stringify(now) !== JSON.stringify(asWanted)) wrong.push(now)
      await pause(100)
    }
  })()
  await poll(
    () => contents(control).catch(() => new Map()),
    (found) => [...whole.keys()].every((key) => found.has(key)),
  )
  watching.abort()
  await watched
  assert.deepEqual(wrong, [])
  // Not at the node by a plain message alone: it must have found its place in the new bucket too.
  const bucket = await bucketOf(control)
  const { revision = 0 } = (await bucket.get(progressKey)) ?? {}
  await poll(
    () => statusOf(edge),
    (status) => status.revision >= revision && status.revision < revision + 1_000,
  )
  const change = await setRules(`allow ${allowed}`, `allow 127.8.0.${++rulesMade}`)
  assert.equal(change.headers.get('service-applied'), '1/1')
}

test('when NATS loses its streams, the edge decides as before and the publisher restores them', () =>
  heals(async () => {
    const manager = await jetstreamManager(await natsAs(nats.controlPlane))
    await manager.streams.delete(`KV_${defaultChannels.records}`)
    await manager.streams.delete('KV_gatehouse_blobs')
  }))

test('when NATS returns with an empty disk, the edge decides as before and the publisher refills it', () =>
  heals(() => nats.restart({ empty: true })))

test('a node that was away while an edge was deleted stops serving it, even if NATS has lost the deletion', async () => {
  const deleted = await newGuardedEdge(admin, edge.tcpPorts.first + 1, upstream.port, `allow ${allowed}`)
  assert.equal(await dial(deleted.port, allowed), 'hello')
  await stop(edge.child)
  assert.equal((await admin('DELETE', deleted.edge.uri)).status, 204)
  const control = await natsAs(nats.controlPlane)
  const key = `tcp.${deleted.edge.id}`
  await poll(async () => (await contents(control)).get(key)?.value === null)
  await nats.restart({ empty: true })
  await poll(async () => (await contents(control).catch(() => undefined))?.has(`tcp.${guarded.edge.id}`))
  edge = await installation.startEdge({ like: edge })
  await poll(decisions, ([answer]) => answer === 'hello')
  await poll(
    () => dial(deleted.port, allowed),
    (answer) => answer === undefined,
    { withinSeconds: 10 },
  )
  assert.deepEqual(await decisions(), asWanted)
})

test('when NATS comes back without its latest writes, as after a power failure, nodes get them all the same', async () => {
  const deleted = await newGuardedEdge(admin, edge.tcpPorts.first + 2, upstream.port, `allow ${allowed}`)
  await nats.copy()
  const isApplied = (change: Awaited<ReturnType<typeof setRules>>) => change.headers.get('service-applied') === '1/1'
  await poll(() => setRules('allow 127.0.0.5'), isApplied)
  // So far ahead that the lost revisions are not made up for soon.
  for (let turn = 0; turn < 40; turn++) await setRules(`allow 127.9.0.${turn}`)
  await stop(edge.child)
  assert.equal((await admin('DELETE', deleted.edge.uri)).status, 204)
  await setRules(`allow ${allowed}`)
  const control = await natsAs(nats.controlPlane)
  await poll(async () => (await contents(control)).get(`tcp.${deleted.edge.id}`)?.value === null)
  await nats.restart({ toCopy: true })
  edge = await installation.startEdge({ like: edge })
  await poll(decisions, (answers) => JSON.stringify(answers) === JSON.stringify(asWanted), { withinSeconds: 20 })
  await poll(
    () => dial(deleted.port, allowed),
    (answer) => answer === undefined,
    { withinSeconds: 20 },
  )
  const change = await setRules(`allow ${allowed}`, 'allow 127.0.0.6')
  assert.equal(change.headers.get('service-applied'), '1/1')
  assert.equal(await dial(guarded.port, '127.0.0.6'), 'hello')
  await setRules(`allow ${allowed}`)
})

test('when the publisher is killed during 200 changes, another takes over and every change reaches the edge', async () => {
  const active = processes[0]
  await installation.startProcess()
  survivor = installation.clientFor(admin.token)
  const policy = `${guarded.policyId}`
  let last = 0
  for (let index = 0; index < 200; index++) {
    if (index === 100) active?.child.kill('SIGKILL')
    const rule = { ip_policy_id: policy, action: 'allow', cidr: `127.0.9.${index}` }
    const added = await survivor('POST', '/ip_policy_rules', rule, { process: 1 })
    assert.equal(added.status, 201, added.text)
    last = Number(added.headers.get('service-generation'))
  }
  await poll(
    () => statusOf(edge),
    ({ applied }) => applied >= last,
  )
  for (let index = 0; index < 200; index++)
    assert.equal(await dial(guarded.port, `127.0.9.${index}`), 'hello', `${index}`)
  assert.deepEqual(await decisions(), asWanted)
})

test('records signed with a key that the node does not trust yet take effect as soon as it does', async () => {
  const env = { GATEHOUSE_DATABASE_URL: databaseUrl, GATEHOUSE_SECRETS_KEY_FILE: secretsKeyFile() }
  const { stdout } = await gatehouse(['signing-keys', 'add'], env)
  const early = stdout.trim()
  assert.equal((await gatehouse(['signing-keys', 'activate', early], env)).code, 0)
  const rule = { ip_policy_id: guarded.policyId, action: 'allow', cidr: '127.0.0.77' }
  const change = await survivor('POST', '/ip_policy_rules', rule, { process: 1 })
  assert.equal(change.status, 201, change.text)
  await poll(
    () => statusOf(edge),
    ({ refusals }) => refusals.some(({ reason }: { reason: string }) => reason.includes('not trusted here')),
  )
  assert.equal(await dial(guarded.port, '127.0.0.77'), undefined)
  await stop(edge.child)
  const both = { GATEHOUSE_EDGE_TRUSTED_KEYS: `${installation.publicKey},${early}` }
  edge = await installation.startEdge({ like: edge, env: both })
  await poll(
    () => dial(guarded.port, '127.0.0.77'),
    (answer) => answer === 'hello',
  )
  assert.equal((await survivor('DELETE', change.body.uri, undefined, { process: 1 })).status, 204)
  assert.equal((await gatehouse(['signing-keys', 'activate', installation.publicKey], env)).code, 0)
})

test('signing keys rotate: nodes trust the new key first, then it signs everything, then the old one can be removed', async () => {
  const env = { GATEHOUSE_DATABASE_URL: databaseUrl, GATEHOUSE_SECRETS_KEY_FILE: secretsKeyFile() }
  const { stdout } = await gatehouse(['signing-keys', 'add'], env)
  const fresh = stdout.trim()
  await stop(edge.child)
  const both = { GATEHOUSE_EDGE_TRUSTED_KEYS: `${installation.publicKey},${fresh}` }
  edge = await installation.startEdge({ like: edge, env: both })
  assert.equal((await gatehouse(['signing-keys', 'activate', fresh], env)).code, 0)
  const control = await natsAs(nats.controlPlane)
  await poll(
    () => contents(control),
    (found) => [...found.values()].every(({ signedBy }) => signedBy === keyIdOf(fresh)),
  )
  assert.deepEqual(await decisions(), asWanted)
  await stop(edge.child)
  // With an empty disk and without the old key: there is nothing left that only the old one signed.
  edge = await installation.startEdge({ env: { GATEHOUSE_EDGE_TRUSTED_KEYS: fresh } })
  await poll(decisions, (now) => now[0] === 'hello' && now[1] === undefined)
  const added = await survivor('POST', '/ip_policies?wait=applied', {}, { process: 1 })
  assert.equal(added.headers.get('service-applied'), '1/1')
  assert.deepEqual((await statusOf(edge)).refusals, [])
})
