// What HAProxy tells about requests and connections: one line each, however they end, and nothing that a client
// can forge.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect as connectHttp2 } from 'node:http2'
import { after, before, test } from 'node:test'
import { freePorts } from '../../dev/ports.ts'
import type { EdgeRequest } from '../../src/distribution/requests.ts'
import { poll } from '../harness/poll.ts'
import { exchange, get, putHttpsEdge, putRoute, startHttpUpstream } from './http_harness.ts'
import { type Edge, firstBytes, id, openConnection, startEdge, startUpstream } from './proxy_harness.ts'

const uuid7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
const idsIn = (head: string) => [...head.matchAll(/^x-request-id: (.*)$/gim)].map(([, value = '']) => value)
const ends: (() => unknown)[] = []
const scope = { after: (end: () => unknown) => void ends.unshift(end) }
let edge: Edge
let https: string
let upstream: Awaited<ReturnType<typeof startHttpUpstream>>

before(async () => {
  edge = await startEdge(scope, { certificates: ['app.example.com'] })
  upstream = await startHttpUpstream(scope)
  https = await putHttpsEdge(edge)
  await putRoute(edge, https, { port: upstream.port })
})
after(async () => {
  for (const end of ends) await end()
})

/** What HAProxy says about the request or connection that `act` makes. */
async function toldOf(act: () => Promise<unknown>, count = 1): Promise<EdgeRequest[]> {
  const from = edge.lines.length
  await act()
  await poll(() => edge.lines.slice(from).filter(({ isEnd }) => isEnd).length >= count)
  assert.equal(edge.reader.unreadable(), 0)
  return edge.lines.slice(from).flatMap(({ request, isEnd }) => (isEnd ? [request] : []))
}
const toldOfGet = async (options: Parameters<typeof get>[1]) => (await toldOf(() => get(edge, options)))[0]

test('the response, the upstream and the record share one id, which the client cannot choose', async () => {
  let head = ''
  const headers = ['X-Request-Id: 0198c0de-0000-7000-8000-000000000000', 'X_Request_Id: mine']
  const [told] = await toldOf(async () => {
    head = (await get(edge, { headers })).head
  })
  assert.match(told?.id ?? '', uuid7)
  assert.deepEqual(idsIn(head), [told?.id])
  assert.deepEqual(idsIn(upstream.heads.at(-1) ?? ''), [told?.id])
  assert.ok(!upstream.heads.at(-1)?.includes('mine'))
})

test('the line of a request says where it came from and went, and leaves out its query', async () => {
  const told = await toldOfGet({ path: '/a/b?secret=1', headers: ['Authorization: Bearer secret', 'Cookie: secret'] })
  assert.ok(told)
  const { id: _id, at, route, account, durationMs, bytesIn, bytesOut, ...rest } = told
  assert.ok(Math.abs(Date.parse(at) - Date.now()) < 10_000)
  assert.match(`${route} ${account}`, /^edghtsrt_\w+ ac_\w+$/)
  assert.ok(durationMs < 10_000 && bytesIn > 50 && bytesOut > 50)
  assert.deepEqual(rest, {
    ...{ node: 'edge-1', edge: https, source: '127.0.0.1', protocol: 'http/1.1', method: 'GET' },
    ...{ host: 'app.example.com', path: '/a/b', status: 200, upstream: `127.0.0.1:${upstream.port}` },
    ...{ outcome: 'allowed', reason: null, restriction: null, policy: null, rule: null, generation: 1, trace: null },
  })
  assert.ok(!JSON.stringify(edge.lines.at(-1)).includes('secret'))
})

test('the line of a request that the edge itself answers gives the reason', async () => {
  const reasonOf = async (options: Parameters<typeof get>[1]) => {
    const told = await toldOfGet(options)
    return `${told?.status} ${told?.outcome} ${told?.reason}`
  }
  const servername = 'app.example.com'
  assert.equal(await reasonOf({ host: 'none.example', servername }), '404 failed no_route')
  assert.equal(await reasonOf({ method: 'TRACE' }), '405 failed method_not_allowed')
  assert.equal(await reasonOf({ host: 'a..b', servername }), '400 failed bad_host')
  assert.equal(await reasonOf({ path: '/x%2f..' }), '400 failed ambiguous_path')
  const [bad] = await toldOf(() => exchange(edge, 'GET / HTTP/9 \x01\r\n\r\n'))
  assert.deepEqual([bad?.outcome, bad?.reason, bad?.path], ['failed', 'bad_request', null])
  const [port = 0] = await freePorts(1)
  await putRoute(edge, https, { port }, { match: '/refused' })
  assert.equal(await reasonOf({ path: '/refused' }), '503 failed connect_failed')
  await putRoute(edge, https, { port }, { match: '/nowhere', backend: null })
  assert.equal(await reasonOf({ path: '/nowhere' }), '503 failed no_backend')
})

test('the lines of refusals and warnings name what decided', async () => {
  const [account, enforced, warning] = [id('ac'), id('ipx'), id('ipx')]
  const [elsewhere, denied] = [await edge.policy('allow 192.0.2.0/24'), await edge.policy('deny 127.0.0.0/8')]
  await putRoute(edge, https, { port: upstream.port }, { match: '/own', policies: [denied] })
  const own = await toldOfGet({ path: '/own' })
  assert.deepEqual(
    [own?.outcome, own?.reason, own?.restriction, own?.policy, own?.status, own?.upstream],
    ['refused', 'policy', null, denied, 403, null],
  )
  await putRoute(edge, https, { port: upstream.port }, { match: '/account', account })
  const set = (isEnforced: boolean, ipx: string) => ({ id: ipx, enforced: isEnforced, policies: [elsewhere] })
  await edge.put({ [`restrictions.${account}`]: { sets: [set(false, warning)] } })
  const warned = await toldOfGet({ path: '/account' })
  assert.deepEqual(
    [warned?.outcome, warned?.reason, warned?.restriction, warned?.policy, warned?.status],
    ['warned', null, warning, elsewhere, 200],
  )
  await edge.put({ [`restrictions.${account}`]: { sets: [set(false, warning), set(true, enforced)] } })
  const refused = await toldOfGet({ path: '/account' })
  assert.deepEqual([refused?.outcome, refused?.reason, refused?.restriction], ['refused', 'restriction', enforced])
  const counted = edge.events.filter(({ restriction }) => restriction === warning || restriction === enforced)
  assert.deepEqual(counted.map(({ outcome }) => outcome).sort(), ['refused', 'warned', 'warned'])
})

test('any traceparent passes untouched, and the line has the trace of a valid one', async () => {
  const trace = '0af7651916cd43dd8448eb211c80319c'
  const cases: [string, string | null][] = [
    [`00-${trace}-b7ad6b7169203331-01`, trace],
    [`01-${trace}-b7ad6b7169203331-01-more`, trace],
    [`00-${trace}-b7ad6b7169203331-01-more`, null],
    [`ff-${trace}-b7ad6b7169203331-01`, null],
    [`00-${'0'.repeat(32)}-b7ad6b7169203331-01`, null],
    [`00-${trace}-${'0'.repeat(16)}-01`, null],
    ['secret', null],
  ]
  for (const [value, expected] of cases) {
    const told = await toldOfGet({ headers: [`traceparent: ${value}`] })
    assert.equal(told?.trace, expected, value)
    assert.ok(upstream.heads.at(-1)?.includes(`traceparent: ${value}`), value)
    assert.ok(expected !== null || !JSON.stringify(told).includes(value))
  }
})

test('a TCP connection has a line when it ends, at once when it is warned about, and when it is refused or fails', async (t) => {
  const tcp = await startUpstream(t, 'hello')
  const [account, backend, dead, restriction] = [id('ac'), id('bkdst'), id('bkdst'), id('ipx')]
  const [port = 0] = await freePorts(1)
  const target = { tls: false, host: 'inner.test' }
  const edges = [id('edgtcp'), id('edgtcp'), id('edgtcp')]
  const [elsewhere, denied] = [await edge.policy('allow 192.0.2.0/24'), await edge.policy('deny 127.0.0.0/8')]
  const at = (index: number) => ({ account, hostports: [`127.0.0.1:${edge.tcpPort + index}`] })
  await edge.put({
    [`restrictions.${account}`]: { sets: [{ id: restriction, enforced: false, policies: [elsewhere] }] },
    [`backend.${backend}`]: { address: '127.0.0.1', port: tcp.port, ...target },
    [`backend.${dead}`]: { address: '127.0.0.1', port, ...target },
    [`tcp.${edges[0]}`]: { ...at(0), backend, policies: null },
    [`tcp.${edges[1]}`]: { ...at(1), backend: dead, policies: null },
    [`tcp.${edges[2]}`]: { ...at(2), backend, policies: [denied] },
  })
  const from = edge.lines.length
  const socket = openConnection({ port: edge.tcpPort })
  await once(socket, 'data')
  await poll(() => edge.lines.length > from)
  assert.deepEqual(edge.lines[from]?.isEnd, false)
  assert.deepEqual(edge.events.at(-1), { outcome: 'warned', restriction, target: edges[0], source: '127.0.0.1' })
  const events = edge.events.length
  const [told] = await toldOf(async () => socket.destroy())
  assert.ok(told)
  assert.deepEqual(
    [told.protocol, told.edge, told.account, told.outcome, told.restriction, told.upstream, told.bytesOut, told.status],
    ['tcp', edges[0], account, 'warned', restriction, `127.0.0.1:${tcp.port}`, 5, null],
  )
  assert.equal(edge.events.length, events, 'a warning counts once')
  const [failed] = await toldOf(() => firstBytes({ port: edge.tcpPort + 1 }))
  assert.deepEqual([failed?.edge, failed?.outcome, failed?.reason], [edges[1], 'failed', 'connect_failed'])
  const [refused] = await toldOf(() => firstBytes({ port: edge.tcpPort + 2 }))
  assert.deepEqual([refused?.edge, refused?.outcome, refused?.policy], [edges[2], 'refused', denied])
})

test('no path, host or method makes a line of its own or breaks one', async (t) => {
  const session = connectHttp2(`https://127.0.0.1:${edge.httpsPort}`, {
    ...{ rejectUnauthorized: false, servername: 'app.example.com' },
  })
  session.on('error', () => {})
  t.after(() => session.destroy())
  const forged = '/\tL\t0\t124 H\t5 events dropped'
  const paths = [forged, '/"\\\'{}|<>`^', `/${'a'.repeat(8_000)}`, '/é\u0080', '/#25', '/%00%0a', '/12 12 12', '/-\t-']
  // HAProxy refuses some of them, and with some the whole connection: what counts is what is left of the lines.
  const from = edge.lines.length
  for (const path of paths) {
    if (session.destroyed) break
    const stream = session.request({ ':path': path, ':authority': 'app.example.com' })
    stream.on('error', () => {})
    stream.resume()
    await new Promise((resolve) => stream.once('close', resolve))
  }
  for (const path of paths) await get(edge, { path })
  for (const host of ['a"b', "a'b", 'a\\b', `${'a.'.repeat(2_000)}b`, '-', '\u00e9', 'a\tb'])
    await get(edge, { host, servername: 'app.example.com' })
  await get(edge, { path: '/still-here' })
  await poll(() => edge.lines.some(({ request }) => request.path === '/still-here'))
  const told = edge.lines.slice(from).map(({ request }) => request)
  for (const { path, host } of told) {
    assert.match(path ?? '/', /^\/[\x21-\x7e]{0,1023}$/)
    assert.match(host ?? 'none', /^[\x21-\x7e]{1,255}$/)
  }
  assert.ok(told.some(({ path }) => path?.length === 1_024))
  assert.ok(told.every(({ source, outcome }) => source === '127.0.0.1' && outcome !== 'limited'))
  assert.deepEqual([edge.reader.unreadable(), edge.reader.dropped()], [0, 0])
})
