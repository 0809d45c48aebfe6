// Weighted and failover backends at the edge.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { loadScaledTimeout } from '../harness/load_scaled_timeout.ts'
import { poll } from '../harness/poll.ts'
import { get } from './http_harness.ts'
import { answersOf, httpCheck, onlyTheseNatives, routeTo, startNamedServer, staticBackend } from './native_harness.ts'
import { type Edge, id, startEdge } from './proxy_harness.ts'

const certificates = ['app.example.com']

/** Static backends of one server each, with a health check. */
async function putMembers(edge: Edge, servers: readonly { address: string; port: number }[]) {
  const members = servers.map(() => id('bkdst'))
  const records = servers.map((server, index) => [
    `backend.${members[index]}`,
    staticBackend([server], { health_check: httpCheck }),
  ])
  await edge.put(Object.fromEntries(records))
  return members as [string, string, ...string[]]
}

test('requests are split by weight, and weight 0 drains: open requests finish, new ones go elsewhere', async (t) => {
  const edge = await startEdge(t, { certificates })
  const [blue, green] = [await startNamedServer(t, 'blue'), await startNamedServer(t, 'green')]
  const [toBlue, toGreen] = await putMembers(edge, [blue, green])
  const [account, group] = [id('ac'), id('bkdwd')]
  const weights = (...shares: [number, number]) => ({
    [`weighted.${group}`]: {
      account,
      backends: [
        [toBlue, shares[0]],
        [toGreen, shares[1]],
      ],
    },
  })
  await edge.put(weights(7_500, 2_500))
  await routeTo(edge, group, account)
  const split = await answersOf(edge, 40)
  assert.ok(Math.abs((split.blue ?? 0) - 30) <= 2, JSON.stringify(split))

  const open = get(edge, { path: '/?ms=3000' })
  const isOpen = () => [...blue.requests, ...green.requests].some((line) => line.endsWith('ms=3000'))
  await poll(isOpen)
  const holder = blue.requests.some((line) => line.endsWith('ms=3000')) ? 'blue' : 'green'
  const other = holder === 'blue' ? 'green' : 'blue'
  await edge.put(holder === 'blue' ? weights(0, 1) : weights(1, 0))
  assert.deepEqual(await answersOf(edge, 10), { [other]: 10 })
  assert.deepEqual([(await open).status, (await open).body], [200, holder])
  const servers = [blue, green].map(({ port }) => `127.0.0.1:${port}`).sort()
  await onlyTheseNatives(edge, { [`${group}.http`]: servers })

  await edge.put(weights(0, 0))
  assert.deepEqual(await answersOf(edge, 2), { 503: 2 })
})

test('failover: the first healthy member in order, and back again after a recovery', async (t) => {
  const edge = await startEdge(t, { certificates })
  const servers = [
    await startNamedServer(t, 'first'),
    await startNamedServer(t, 'second'),
    await startNamedServer(t, 'third'),
  ] as const
  const members = await putMembers(edge, servers)
  const [account, group] = [id('ac'), id('bkdfo')]
  await edge.put({ [`failover.${group}`]: { account, backends: members } })
  await routeTo(edge, group, account)
  const all = (name: string) =>
    poll(
      () => answersOf(edge, 5),
      (answers) => answers[name] === 5,
    )
  assert.deepEqual(await answersOf(edge, 10), { first: 10 })
  servers[0].status = 500
  await all('second')
  await servers[1].stop()
  await all('third')
  servers[0].status = 204
  const recovering = Date.now()
  await all('first')
  assert.ok(Date.now() - recovering < loadScaledTimeout(10_000))
})

test('a member that changes its address, or is changed to another one, is followed', async (t) => {
  const edge = await startEdge(t, { certificates })
  const [old, next] = [await startNamedServer(t, 'old'), await startNamedServer(t, 'next')]
  const [member] = await putMembers(edge, [old])
  const [account, group] = [id('ac'), id('bkdfo')]
  await edge.put({ [`failover.${group}`]: { account, backends: [member] } })
  await routeTo(edge, group, account)
  assert.deepEqual(await answersOf(edge, 3), { old: 3 })
  // One address and no check: as a backend of its own it would need no native backend.
  await edge.put({ [`backend.${member}`]: staticBackend([next]) })
  assert.deepEqual(await answersOf(edge, 3), { next: 3 })
  const [another] = await putMembers(edge, [old])
  await edge.put({ [`failover.${group}`]: { account, backends: [another] } })
  assert.deepEqual(await answersOf(edge, 3), { old: 3 })
  await edge.put({ [`failover.${group}`]: null })
  assert.deepEqual(await answersOf(edge, 3), { 503: 3 })
  await onlyTheseNatives(edge, {})
})

test("a route gets nothing from another account's group", async (t) => {
  const edge = await startEdge(t, { certificates })
  const server = await startNamedServer(t, 'private')
  const [member] = await putMembers(edge, [server])
  const group = id('bkdfo')
  await edge.put({ [`failover.${group}`]: { account: id('ac'), backends: [member] } })
  await routeTo(edge, group, id('ac'))
  assert.deepEqual(await answersOf(edge, 2), { 503: 2 })
  assert.deepEqual(server.requests, [])
})

test('a failover backend that ends in a response answers with it when all its servers are down, and has none without', async (t) => {
  const edge = await startEdge(t, { certificates })
  const server = await startNamedServer(t, 'server')
  const [member] = await putMembers(edge, [server])
  const [account, group, response] = [id('ac'), id('bkdfo'), id('bkdhr')]
  await edge.put({
    [`response.${response}`]: { status: 418, headers: [], body: 'maintenance' },
    [`failover.${group}`]: { account, backends: [member], response },
  })
  await routeTo(edge, group, account)
  assert.deepEqual(await answersOf(edge, 2), { server: 2 })
  server.status = 500
  const answer = await poll(
    () => get(edge),
    ({ status }) => status !== 200,
  )
  assert.deepEqual([answer.status, answer.body], [418, 'maintenance'])
  await edge.put({ [`failover.${group}`]: { account, backends: [], response } })
  assert.deepEqual(await answersOf(edge, 2), { 418: 2 })
  await edge.put({ [`failover.${group}`]: { account, backends: [member] } })
  assert.deepEqual(await answersOf(edge, 2), { 503: 2 })
})
