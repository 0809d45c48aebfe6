import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { startNats } from '../../../dev/nats.ts'
import type { Client } from '../../../test/harness/client.ts'
import { startControlPlane, stop } from '../../../test/harness/control_plane.ts'
import { connectNode, edgeRequest } from '../../../test/harness/edge_requests.ts'
import { newHttpsEdge } from '../../../test/harness/fixtures.ts'
import { behindProxy, policyWith, restrict } from '../../../test/harness/ip.ts'
import { loadScaledTimeout } from '../../../test/harness/load_scaled_timeout.ts'
import { holdsFor, poll } from '../../../test/harness/poll.ts'
import { newUser } from '../../../test/harness/principals.ts'
import { signIn } from '../../../test/harness/session.ts'
import { type OpenStream, openStream } from '../../../test/harness/stream.ts'
import { defaultChannels } from '../../distribution/channels.ts'
import type { EdgeRequest } from '../../distribution/requests.ts'
import { readWatches, type Tail, type Watch, type Watches } from '../../distribution/watches.ts'

const nats = await startNats()
after(() => nats.stop())
const plane = await startControlPlane({ after }, { processes: 2, env: { ...nats.controlPlane, ...behindProxy } })
const { nats: node } = await connectNode({ after }, nats.url)
/** What each process last said that it watches. */
const told = new Map<string, Watches>()
node.subscribe(defaultChannels.watches, {
  callback: (_, message) => {
    const read = readWatches(message.string()) ?? assert.fail(message.string())
    told.set(read.process, read)
  },
})
await node.flush()

const streamOf = async (client: Client, query = '', process = 0, headers = {}): Promise<OpenStream> => {
  const bearer = { authorization: `Bearer ${client.token}`, ...headers }
  const stream = await openStream(plane.processes[process]?.origin ?? '', `/requests/stream${query}`, bearer)
  after(async () => stream.close())
  return stream
}
/** What nodes have been told to look for in this account. */
const watchesOf = (account: { accountId: string }): Watch[] =>
  [...told.values()].flatMap(({ watches }) => watches).filter(({ account: whose }) => whose === account.accountId)
const watched = (account: { accountId: string }, count: number) =>
  poll(
    () => watchesOf(account),
    (watches) => watches.length === count,
  )
const send = (requests: EdgeRequest[], watches: Watch[], more: Partial<Tail> = {}) => {
  const lines = requests.map((request) => ({ watches: watches.map(({ id }) => id), request }))
  node.publish(defaultChannels.tail('edge-1'), JSON.stringify({ node: 'edge-1', lines, dropped: [], ...more }))
}
const idsIn = ({ events }: OpenStream) => events.filter(({ event }) => event === 'request').map(({ data }) => data.id)

test('watchers on every process see requests as nodes report them, and no one else does', async () => {
  const [admin, stranger] = [await plane.newAccount(), await plane.newAccount()]
  const edge = await newHttpsEdge(admin)
  const streams = await Promise.all([0, 1].map((process) => streamOf(admin, '', process)))
  const theirs = await streamOf(stranger)
  const watches = await watched(admin, 2)
  const allowed = edgeRequest(admin, edge, { outcome: 'allowed', reason: null, status: 200 })
  send([allowed], watches)
  for (const stream of streams) {
    await poll(() => idsIn(stream).includes(allowed.id))
    const { data } = stream.events[0] ?? assert.fail()
    assert.deepEqual(
      [data.edge, data.outcome, data.source_ip],
      [{ id: edge.id, uri: edge.uri }, 'allowed', '192.0.2.1'],
    )
  }
  // A stolen node names another account's watch.
  send([edgeRequest(admin, edge)], await watched(stranger, 1))
  send([allowed], [...watches, ...watchesOf(stranger)])
  await poll(() => idsIn(streams[0] as OpenStream).length === 2)
  assert.deepEqual(idsIn(theirs), [])
  assert.equal((await admin('GET', '/requests')).body.requests.length, 0)
  for (const stream of streams) stream.close()
  await watched(admin, 0)
})

test('a stream has only what its filters let through, and nodes receive the filters', async () => {
  const admin = await plane.newAccount()
  const [edge, other] = [await newHttpsEdge(admin), await newHttpsEdge(admin)]
  const stream = await streamOf(admin, `?edge_id=${edge.id}&outcome=refused&source_ip=192.0.2.0/24`)
  const watches = await watched(admin, 1)
  const [{ edge: toldEdge, outcome, source }] = watches as [Watch]
  assert.deepEqual([toldEdge, outcome, source], [edge.id, 'refused', '192.0.2.0/24'])
  const wanted = edgeRequest(admin, edge)
  send(
    [
      edgeRequest(admin, other),
      edgeRequest(admin, edge, { outcome: 'warned', reason: null }),
      edgeRequest(admin, edge, { source: '198.51.100.1' }),
      wanted,
    ],
    watches,
    { dropped: watches.map(({ id }) => ({ watch: id, count: 7 })) },
  )
  await poll(() => stream.events.length === 2)
  assert.deepEqual(
    stream.events.map(({ event, data }) => [event, data.id ?? data.count]),
    [
      ['request', wanted.id],
      ['dropped', 7],
    ],
  )
})

test('a viewer who does not read loses requests and sees how many, and others lose none', async () => {
  const admin = await plane.newAccount()
  const edge = await newHttpsEdge(admin)
  const [slow, quick] = [await streamOf(admin), await streamOf(admin, '?outcome=refused')]
  const watches = await watched(admin, 2)
  await poll(() => slow.comments() > 0)
  slow.response.pause()
  const rounds = 40
  const path = `/${'x'.repeat(1_000)}`
  for (let i = 1; i <= rounds; i++) {
    send(
      Array.from({ length: 100 }, () => edgeRequest(admin, edge, { path })),
      watches,
    )
    await poll(
      () => idsIn(quick).length,
      (count) => count === i * 100,
      { withinSeconds: 10 },
    )
  }
  slow.response.resume()
  const lost = () =>
    slow.events.filter(({ event }) => event === 'dropped').reduce((sum, { data }) => sum + data.count, 0)
  await poll(() => idsIn(slow).length + lost() === rounds * 100)
  assert.ok(lost() > 0, 'nothing was lost: more is held for a slow viewer than it should be')
})

test('a stream ends within seconds when its key is deleted, its scope taken, its session ended or its address refused', async () => {
  const admin = await plane.newAccount()
  const keyed = async (body = {}) => {
    const { body: key } = await admin('POST', '/api_keys', body)
    return { key, stream: await streamOf(plane.clientFor(key.token)) }
  }
  const browser = await signIn(admin)
  const cookie = `__Host-gatehouse_session=${browser.secret}`
  const [deleted, narrowed, kept] = [await keyed(), await keyed(), await keyed()]
  const session = await openStream(plane.processes[0]?.origin ?? '', '/requests/stream', { cookie })
  assert.deepEqual(
    [deleted, narrowed, kept].map(({ stream }) => stream.status),
    [200, 200, 200],
  )
  assert.equal(session.status, 200)
  assert.equal((await admin('DELETE', deleted.key.uri)).status, 204)
  assert.equal((await admin('PATCH', narrowed.key.uri, { scopes: ['requests.list'] })).status, 200)
  assert.equal((await browser('DELETE', '/dashboard_session')).status, 204)
  const began = Date.now()
  for (const stream of [deleted.stream, narrowed.stream, session]) {
    await poll(stream.isOver)
    assert.deepEqual(stream.events, [{ event: 'end', data: { reason: 'unauthorized' } }])
  }
  assert.ok(Date.now() - began < loadScaledTimeout(15_000))
  await holdsFor(2_500, () => !kept.stream.isOver())
  // From elsewhere than the address that the new restriction allows.
  const away = await streamOf(admin, '', 0, { 'x-forwarded-for': '203.0.113.5' })
  assert.equal(away.status, 200)
  await restrict(admin, {
    type: 'api',
    enforced: true,
    ip_policy_ids: [await policyWith(admin, 'allow 127.0.0.0/8')],
  })
  await poll(away.isOver)
  assert.deepEqual(away.events, [{ event: 'end', data: { reason: 'unauthorized' } }])
  await holdsFor(2_500, () => !kept.stream.isOver())
})

test('a stream shows source addresses to admins only, and ends when the role changes', async () => {
  const admin = await plane.newAccount()
  const edge = await newHttpsEdge(admin)
  const [other, member] = [await newUser(plane, admin, 'admin'), await newUser(plane, admin)]
  const [seen, hidden] = [await streamOf(other), await streamOf(member)]
  send([edgeRequest(admin, edge)], await watched(admin, 2))
  await poll(() => idsIn(seen).length === 1 && idsIn(hidden).length === 1)
  assert.deepEqual([seen.events[0]?.data.source_ip, hidden.events[0]?.data.source_ip], ['192.0.2.1', null])
  const { body } = await other('GET', '/caller')
  await admin('PATCH', `/users/${body.owner_id}`, { role: 'member' })
  await poll(seen.isOver)
  assert.ok(!hidden.isOver())
})

test('an account has ten streams at once in each process, and a place again when one has ended', async () => {
  const [admin, other] = [await plane.newAccount(), await plane.newAccount()]
  const streams = await Promise.all(Array.from({ length: 10 }, () => streamOf(admin)))
  assert.ok(streams.every(({ status }) => status === 200))
  const refused = await admin('GET', '/requests/stream')
  assert.deepEqual([refused.status, refused.body.error_code], [429, 'ERR_TOO_MANY_OPERATIONS'])
  assert.equal((await other('GET', '/requests/stream')).status, 200)
  const metrics = await (await fetch(`${plane.processes[0]?.origin}/metrics`)).text()
  assert.ok(Number(/^gatehouse_request_streams (\d+)$/m.exec(metrics)?.[1]) >= 10)
  streams[0]?.close()
  await poll(async () => (await admin('GET', '/requests/stream')).status === 200)
  assert.equal((await admin('HEAD', '/requests/stream')).status, 200)
})

test('a process that shuts down ends its streams, and nodes learn that its watches are over', async () => {
  const admin = await plane.newAccount()
  const process = await plane.startProcess()
  const stream = await streamOf(admin, '', plane.processes.indexOf(process))
  await watched(admin, 1)
  await poll(() => stream.comments() > 0)
  const began = Date.now()
  await stop(process.child)
  await poll(stream.isOver)
  assert.deepEqual(stream.events, [{ event: 'end', data: { reason: 'shutdown' } }])
  assert.ok(Date.now() - began < loadScaledTimeout(20_000), 'it waited for the end of the grace period')
  await watched(admin, 0)
})
