// The ip_restriction module with the mode warn, through a real HAProxy.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { type TestContext, test } from 'node:test'
import { WebSocket } from 'ws'
import { ask } from '../../src/agent/haproxy/process/runtime.ts'
import { mapFile, policyFolder } from '../../src/agent/haproxy/settings.ts'
import { poll } from '../harness/poll.ts'
import { get, putHttpsEdge, putRoute, startHttpUpstream } from './http_harness.ts'
import { assertEvents, type Edge, firstBytes, id, onBothPaths, startEdge, startUpstream } from './proxy_harness.ts'
import { extendedConnect, openHttp2, startEcho } from './websocket_harness.ts'

const certificates = ['app.example.com']
const warns = { policies_mode: 'warn' as const }
const stranger = '127.0.0.2'

const toldOf = (edge: Edge, target: string, count: number) =>
  poll(
    () => edge.lines.filter(({ request: { route, edge: tcp } }) => (route ?? tcp) === target),
    (lines) => lines.length >= count,
  )

onBothPaths('addresses that the policies of a route would refuse are let in and noted', async (t, start) => {
  const edge = await start(t, { certificates })
  const upstream = await startHttpUpstream(t)
  const office = await edge.policy('allow 127.0.0.1', 'deny 127.0.0.3')
  const https = await putHttpsEdge(edge)
  const route = await putRoute(edge, https, upstream, { policies: [office], ...warns })
  const several = await putRoute(edge, https, upstream, {
    ...{ match: '/several', policies: [office, await edge.policy()], ...warns },
    headers: { add: [['x-a', 'b']], remove: [] },
  })
  const strict = await putRoute(edge, https, upstream, { match: '/strict', policies: [office] })
  const statusOf = async (path: string, from: string) => (await get(edge, { path, from })).status
  for (const path of ['/', '/several'])
    for (const from of ['127.0.0.1', stranger, '127.0.0.3']) assert.equal(await statusOf(path, from), 200, path)
  assert.deepEqual([await statusOf('/strict', '127.0.0.1'), await statusOf('/strict', stranger)], [200, 403])

  // One line when it is decided, and one at the end.
  const told = await toldOf(edge, route, 5)
  assert.deepEqual(
    told
      .filter(({ isEnd }) => isEnd)
      .map(({ request: { source, outcome, reason, restriction, policy } }) => [
        source,
        outcome,
        reason,
        restriction,
        policy,
      ]),
    [
      ['127.0.0.1', 'allowed', null, null, null],
      [stranger, 'warned', 'policy', null, office],
      ['127.0.0.3', 'warned', 'policy', null, office],
    ],
  )
  const warned = { outcome: 'warned' as const, restriction: null }
  await assertEvents(edge, [
    ...[route, several].flatMap((target) => [
      { ...warned, target, source: stranger },
      { ...warned, target, source: '127.0.0.3' },
    ]),
    { outcome: 'refused', restriction: null, target: strict, source: stranger },
  ])
})

onBothPaths('a warned request reaches the upstream with the same bytes as an allowed one', async (t, start) => {
  const edge = await start(t, { certificates })
  const upstream = await startHttpUpstream(t)
  await putRoute(edge, await putHttpsEdge(edge), upstream, {
    policies: [await edge.policy('allow 127.0.0.1')],
    ...warns,
  })
  const without = (text: string) => text.replace(/^(x-request-id|x-forwarded-for): .*$/gim, '$1')
  const [allowed, warned] = [await get(edge, { from: '127.0.0.1' }), await get(edge, { from: stranger })]
  assert.equal(without(warned.head), without(allowed.head))
  assert.equal(warned.body, allowed.body)
  assert.equal(without(upstream.heads[1] ?? ''), without(upstream.heads[0] ?? ''))
})

onBothPaths('an enforced restriction of the account refuses all the same, and both are noted', async (t, start) => {
  const edge = await start(t, { certificates })
  const upstream = await startHttpUpstream(t)
  const [account, restriction] = [id('ac'), id('ipx')]
  const [none, here] = [await edge.policy(), await edge.policy('allow 127.0.0.1')]
  await edge.put({ [`restrictions.${account}`]: { sets: [{ id: restriction, enforced: true, policies: [here] }] } })
  const route = await putRoute(edge, await putHttpsEdge(edge), upstream, { account, policies: [none], ...warns })
  assert.deepEqual([(await get(edge)).status, (await get(edge, { from: stranger })).status], [200, 403])
  await assertEvents(edge, [
    { outcome: 'warned', restriction: null, target: route, source: '127.0.0.1' },
    { outcome: 'warned', restriction: null, target: route, source: stranger },
    { outcome: 'refused', restriction, target: route, source: stranger },
  ])
})

onBothPaths('a route that warns says nothing about other spellings of its path', async (t, start) => {
  const edge = await start(t, { certificates })
  const upstream = await startHttpUpstream(t)
  const https = await putHttpsEdge(edge)
  const none = await edge.policy()
  await putRoute(edge, https, upstream)
  const route = await putRoute(edge, https, upstream, { match: '/admin', policies: [none], ...warns })
  const statuses = async () =>
    Promise.all(['/admin', '/ADMIN', '//admin', '/%61dmin'].map(async (path) => (await get(edge, { path })).status))
  assert.deepEqual(await statuses(), [200, 200, 200, 200])
  await putRoute(edge, https, upstream, { match: '/other', policies: [none] })
  assert.deepEqual(await statuses(), [200, 200, 200, 200])
  assert.ok((await toldOf(edge, route, 4)).length >= 4)
})

test('WebSockets and HTTP/2 are let in with a warning', async (t: TestContext) => {
  const edge = await startEdge(t, { certificates })
  const echo = await startEcho(t)
  const route = await putRoute(edge, await putHttpsEdge(edge), echo, { policies: [await edge.policy()], ...warns })
  const socket = new WebSocket(`wss://127.0.0.1:${edge.httpsPort}/`, {
    ...{ rejectUnauthorized: false, servername: 'app.example.com', headers: { Host: 'app.example.com' } },
  })
  t.after(() => socket.terminate())
  await once(socket, 'open')
  socket.send('hello')
  assert.equal(String((await once(socket, 'message'))[0]), 'hello')
  // Noted while it is open.
  await assertEvents(edge, [{ outcome: 'warned', restriction: null, target: route, source: '127.0.0.1' }])
  const { status } = await extendedConnect(await openHttp2(t, edge), '/')
  assert.equal(status, 200)
  await poll(() => edge.events.length === 2)
})

test('a TCP edge that warns lets every address in, even when it has lost its policy', async (t) => {
  const edge = await startEdge(t)
  const upstream = await startUpstream(t, 'hello')
  const [tcp, backend, account] = [id('edgtcp'), id('bkdst'), id('ac')]
  const office = await edge.policy('allow 127.0.0.1')
  const record = { account, hostports: [`127.0.0.1:${edge.tcpPort}`], backend, policies: [office] }
  const warning = { outcome: 'warned' as const, restriction: null, target: tcp, source: stranger }
  await edge.put({
    [`backend.${backend}`]: { address: '127.0.0.1', port: upstream.port, tls: false, host: 'upstream.test' },
    [`tcp.${tcp}`]: { ...record, ...warns },
  })
  const port = edge.tcpPort
  assert.deepEqual([await firstBytes({ port }), await firstBytes({ port, from: stranger })], ['hello', 'hello'])
  await assertEvents(edge, [warning])

  // Neither the file nor the entry: with `enforce` this refuses.
  await rm(policyFolder(edge.settings), { recursive: true })
  await ask(edge.settings.runtimeSocket, `del map ${mapFile(edge.settings, 'policy')} ${office}`)
  assert.equal(await firstBytes({ port, from: stranger }), 'hello')
  await assertEvents(edge, [warning, warning])
  await edge.put({ [`tcp.${tcp}`]: record })
  assert.equal(await firstBytes({ port, from: stranger }), '')

  // What cannot be read as one of the modes is shut, and so is an account of which nothing is known.
  await edge.put({ [`tcp.${tcp}`]: { ...record, ...warns } })
  assert.equal(await firstBytes({ port, from: stranger }), 'hello')
  await ask(edge.settings.runtimeSocket, `del map ${mapFile(edge.settings, 'restrictions')} ${account}`)
  assert.equal(await firstBytes({ port, from: stranger }), '')
  await assert.rejects(edge.put({ [`tcp.${tcp}`]: { ...record, policies_mode: 'Warn' } }), /is no mode of policies/)
})
