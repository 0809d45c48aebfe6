// NATS in operator mode: what a node's JWT reaches, what it does not, and how it ends.

import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { jetstream } from '@nats-io/jetstream'
import { Kvm } from '@nats-io/kv'
import { readBucket } from '../../src/agent/intake/bucket_reader.ts'
import { openBucketApi } from '../../src/distribution/bucket_api.ts'
import { channelsOf, defaultChannels } from '../../src/distribution/channels.ts'
import { pushAccount } from '../../src/fleet/account_push.ts'
import {
  accountPusher,
  closedAccountJwt,
  nodeAccountJwt,
  nodeJwtLifeMs,
  nodeUserJwt,
} from '../../src/fleet/nats_accounts.ts'
import { newNatsKey } from '../../src/fleet/nats_jwt.ts'
import { systemTiming } from '../../src/kernel/system_timing.ts'
import { loadScaledTimeout } from '../harness/load_scaled_timeout.ts'
import { poll } from '../harness/poll.ts'
import { contentsOf, tryEverything } from '../hostile/stolen_node.ts'
import { addNode, connectWith, openControl, startOperatorNats } from './operator_nats.ts'

const file = { after: (cleanUp: () => Promise<void>) => after(cleanUp) }
const nats = await startOperatorNats(file)
const { system, control } = await openControl(file, nats)
const bucket = await new Kvm(jetstream(control)).create(defaultChannels.records, { history: 1 })
await new Kvm(jetstream(control)).create(defaultChannels.blobs, { history: 1 })
const [edge1, edge2] = [await addNode(file, nats, system, 'edge-1'), await addNode(file, nats, system, 'edge-2')]
for (const kind of ['reports', 'requests', 'tail', 'renewals'])
  control.subscribe(`gatehouse.${kind}.*`, {
    callback: (_, message) => void message.respond(`kept ${message.subject}`),
  })
await control.flush()

test('a node reads the bucket, gets batches, and is answered when it reports', async () => {
  for (let i = 0; i < 300; i++) await bucket.put(`r.${i}`, `${i}`)
  const api = await openBucketApi(edge1.connection, defaultChannels)
  assert.equal(api.isShared, false)
  const found: string[] = []
  const ending = new AbortController()
  for await (const { key, pending } of readBucket(api, defaultChannels.records, 1, systemTiming, ending.signal)) {
    found.push(key)
    if (pending === 0) ending.abort()
  }
  assert.deepEqual(found.toSorted(), Array.from({ length: 300 }, (_, i) => `r.${i}`).toSorted())
  const heard: string[] = []
  for (const subject of [defaultChannels.batches, defaultChannels.watches])
    edge1.connection.subscribe(subject, { callback: (_, message) => void heard.push(message.string()) })
  await edge1.connection.flush()
  control.publish(defaultChannels.batches, 'a batch')
  control.publish(defaultChannels.watches, 'a watch')
  await poll(
    () => heard,
    ({ length }) => length === 2,
  )
  const answer = await edge1.connection.request(defaultChannels.reports('edge-1'), '{}', {
    timeout: loadScaledTimeout(5_000),
  })
  assert.equal(answer.string(), 'kept gatehouse.reports.edge-1')
})

test('with the JWT of one node, no message with any reply subject changes a bucket or reaches anyone else', async () => {
  const before = await contentsOf(control)
  assert.ok(before && before.entries.length > 0)
  const heard: string[] = []
  const hear =
    (who: string) =>
    (_: unknown, { subject }: { subject: string }) =>
      void heard.push(`${who} ${subject}`)
  edge2.connection.subscribe('>', { callback: hear('edge-2') })
  for (const subject of ['$KV.>', 'gatehouse.batches', 'gatehouse.watches', 'gatehouse.wake', 'gatehouse.anything'])
    control.subscribe(subject, { callback: hear('control plane') })
  for (const kind of ['reports', 'requests', 'tail', 'renewals'])
    control.subscribe(`gatehouse.${kind}.edge-2`, { callback: hear('control plane') })
  await Promise.all([edge2.connection.flush(), control.flush()])
  const sent = await tryEverything(edge1.connection, ['r.1', 'r.2'])
  assert.ok(sent > 10_000, `only ${sent} combinations`)
  const last = await edge1.connection.request(defaultChannels.reports('edge-1'), '', {
    timeout: loadScaledTimeout(30_000),
  })
  assert.equal(last.string(), 'kept gatehouse.reports.edge-1')
  assert.deepEqual(await contentsOf(control), before)
  assert.deepEqual([...new Set(heard)], [])
})

test('with the JWT of a node of another cell, nothing of this one can be read, heard or changed', async () => {
  const stranger = await addNode(file, nats, system, 'edge-eu', 'eu')
  const own = channelsOf('eu')
  const eu = await new Kvm(jetstream(control)).create(own.records, { history: 1 })
  await eu.put('r.1', 'of its own cell')
  const read = async (bucket: string) =>
    (await openBucketApi(stranger.connection, { records: bucket }, 1_000)).streams.getMessage(`KV_${bucket}`, {
      last_by_subj: `$KV.${bucket}.r.1`,
    })
  assert.equal(Buffer.from((await read(own.records))?.data ?? '').toString(), 'of its own cell')
  await assert.rejects(read(defaultChannels.records))

  const before = await contentsOf(control)
  assert.ok(before && before.entries.length > 0)
  const heard: string[] = []
  stranger.connection.subscribe('>', { callback: (_, message) => void heard.push(message.string()) })
  const sentOn: string[] = []
  for (const kind of ['reports', 'requests', 'tail'])
    control.subscribe(`gatehouse.${kind}.*`, { callback: (_, message) => void sentOn.push(message.subject) })
  await Promise.all([stranger.connection.flush(), control.flush()])
  for (const subject of [defaultChannels.batches, defaultChannels.watches]) control.publish(subject, 'not for eu')
  let sent = 0
  for (const asked of [defaultChannels, own])
    sent += await tryEverything(stranger.connection, ['r.1', 'r.2'], asked, 'edge-eu')
  assert.ok(sent > 20_000, `only ${sent} combinations`)
  control.publish(own.batches, 'for eu')
  await poll(() => heard.includes('for eu'))
  assert.ok(!heard.includes('not for eu'))
  assert.deepEqual(sentOn, [])
  assert.deepEqual(await contentsOf(control), before)
})

test('a user that signs its own JWT, or names another account, is not let in', async () => {
  const key = newNatsKey('user')
  const now = Date.now()
  const forger = { ...nats.operator, keys: { ...nats.operator.keys, nodes: newNatsKey('account') } }
  const jwt = nodeUserJwt(forger, { name: 'edge-1', account: edge1.account, user: key.publicKey }, now)
  await assert.rejects(connectWith(file, nats, { jwt, seed: key.seed }, { reconnect: false }), /Authorization/)
  // A real JWT without its private key.
  const stolen = { jwt: edge1.credentials.jwt, seed: key.seed }
  await assert.rejects(connectWith(file, nats, stolen, { reconnect: false }), /Authorization/)
})

test('the user that pushes accounts can do nothing else with the system account', async () => {
  const pusher = await connectWith(file, nats, accountPusher(nats.operator, Date.now()))
  for (const subject of ['$SYS.REQ.SERVER.PING', '$SYS.REQ.SERVER.PING.STATSZ'])
    await assert.rejects(
      pusher.request(subject, '', { timeout: loadScaledTimeout(5_000) }),
      /Permissions Violation/i,
      subject,
    )
})

test('a closed account loses its connection within a second, also after NATS restarts or had an older copy', async () => {
  const node = await addNode(file, nats, system, 'edge-3')
  const close = () => pushAccount(system, closedAccountJwt(nats.operator, node, Date.now()))
  const reconnecting = () => connectWith(file, nats, node.credentials, { reconnect: false })
  const untilClosed = async () => {
    const connection = await reconnecting()
    const began = performance.now()
    await Promise.all([poll(() => connection.isClosed()), close()])
    return performance.now() - began
  }
  const took = await untilClosed()
  assert.ok(took < 1_000, `${took} ms`)
  await assert.rejects(reconnecting(), /Authorization/)
  assert.equal(edge2.connection.isClosed(), false)

  await nats.restart()
  await assert.rejects(poll(reconnecting), /Authorization/)
  // As a server that was down when the node was revoked.
  const open = nodeAccountJwt(nats.operator, node, Date.now())
  await poll(() =>
    pushAccount(system, open).then(
      () => true,
      () => false,
    ),
  )
  const again = await untilClosed()
  assert.ok(again < 1_000, `${again} ms`)
})

test('an expired JWT is refused, and one of a control plane whose clock is an hour ahead is not', async () => {
  const key = newNatsKey('user')
  const user = { name: 'edge-1', account: edge1.account, user: key.publicKey }
  const at = (now: number) =>
    connectWith(file, nats, { jwt: nodeUserJwt(nats.operator, user, now), seed: key.seed }, { reconnect: false })
  await assert.rejects(at(Date.now() - nodeJwtLifeMs - 1_000), /Authorization|Expired/)
  await at(Date.now() + 60 * 60 * 1_000)
})
