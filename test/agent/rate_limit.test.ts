// The rate_limit module of a route, through a real HAProxy.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect as connectHttp2 } from 'node:http2'
import { type TestContext, test } from 'node:test'
import { ask } from '../../src/agent/haproxy/process/runtime.ts'
import { headerValuesOfSource } from '../../src/kernel/edge/rate_limit.ts'
import { poll } from '../harness/poll.ts'
import { withinAnHour } from './hours.ts'
import { type Get, get, putHttpsEdge, putRoute, startHttpUpstream } from './http_harness.ts'
import { type Edge, id, onBothPaths, startEdge } from './proxy_harness.ts'

const certificates = ['app.example.com']
const limit = (requests: number, more: object = {}) => ({
  rate_limit: { requests, per_seconds: 3_600, key: 'source', mode: 'enforce', ...more } as const,
})
const headerOf = (head: string, name: string) => new RegExp(`^${name}: (.*)$`, 'im').exec(head)?.[1]?.trim()

async function statuses(edge: Edge, count: number, options: Get = {}): Promise<Record<number, number>> {
  const counts: Record<number, number> = {}
  for (let sent = 0; sent < count; sent++) {
    const { status } = await get(edge, options)
    counts[status] = (counts[status] ?? 0) + 1
  }
  return counts
}

/** On one connection, whose later requests take a shorter way than its first. */
function openSession(t: TestContext, { httpsPort }: Edge) {
  const options = { rejectUnauthorized: false, servername: 'app.example.com' }
  const session = connectHttp2(`https://127.0.0.1:${httpsPort}`, options)
  t.after(() => session.destroy())
  return async (path = '/'): Promise<number> => {
    const stream = session.request({ ':path': path, ':authority': 'app.example.com' })
    const [headers] = await once(stream, 'response')
    stream.resume()
    return Number(headers[':status'])
  }
}

onBothPaths('each source, or all of a route, gets as many requests as the limit says and then 429', (t, start) =>
  withinAnHour(async () => {
    const edge = await start(t, { certificates })
    const upstream = await startHttpUpstream(t)
    const https = await putHttpsEdge(edge)
    const route = (match: string, more: object) => putRoute(edge, https, upstream, { match, ...more })
    await route('/', {})
    await route('/source', limit(3))
    await route('/long', limit(3))
    await route('/short', limit(3, { per_seconds: 60 }))
    await route('/route', limit(3, { key: 'route' }))
    await route('/redirect', {
      ...limit(1),
      redirect: { to: 'https://new.example.com', status_code: 307, keep_path: true, keep_query: true },
    })
    assert.deepEqual(await statuses(edge, 5, { path: '/source/x?y' }), { 200: 3, 429: 2 })
    assert.deepEqual(await statuses(edge, 5, { path: '/source', from: '127.0.0.2' }), { 200: 3, 429: 2 })
    assert.deepEqual(await statuses(edge, 5, { path: '/long' }), { 200: 3, 429: 2 }, 'another route has its own')
    assert.deepEqual(await statuses(edge, 2, { path: '/redirect' }), { 307: 1, 429: 1 })
    assert.deepEqual(await statuses(edge, 2, { path: '/route' }), { 200: 2 })
    assert.deepEqual(await statuses(edge, 3, { path: '/route', from: '127.0.0.2' }), { 200: 1, 429: 2 })
    assert.deepEqual(await statuses(edge, 9), { 200: 9 })
    assert.equal(upstream.heads.length, 3 + 3 + 3 + 3 + 9)

    const { status, head, body } = await get(edge, { path: '/source' })
    assert.equal(status, 429)
    const { error_code, details } = JSON.parse(body)
    assert.equal(error_code, 'ERR_ROUTE_LIMIT')
    assert.equal(details.request_id, headerOf(head, 'x-request-id'))
    const wait = Number(headerOf(head, 'retry-after'))
    const left = 3_600 - (Math.floor(Date.now() / 1_000) % 3_600)
    assert.ok(wait - left >= 0 && wait - left < 60, `${wait} instead of ${left}`)
    assert.equal(headerOf(head, 'ratelimit-policy'), '"route";q=3;w=3600')
    assert.equal(headerOf(head, 'ratelimit'), `"route";r=0;t=${wait}`)
    const about = await poll(() => edge.lines.find(({ request }) => request.id === details.request_id)?.request)
    assert.deepEqual([about?.outcome, about?.reason], ['limited', 'rate_limit'])
  }),
)

onBothPaths('a warning lets requests beyond the limit through, and says so', (t, start) =>
  withinAnHour(async () => {
    const edge = await start(t, { certificates })
    const upstream = await startHttpUpstream(t)
    const https = await putHttpsEdge(edge)
    const route = await putRoute(edge, https, upstream, limit(2, { mode: 'warn' }))
    assert.deepEqual(await statuses(edge, 5), { 200: 5 })
    const told = await poll(
      () => edge.lines.filter(({ request }) => request.route === route).map(({ request }) => request),
      (lines) => lines.length === 5,
    )
    assert.deepEqual(
      told.map(({ outcome, reason }) => `${outcome} ${reason}`),
      ['allowed null', 'allowed null', 'warned rate_limit', 'warned rate_limit', 'warned rate_limit'],
    )
  }),
)

onBothPaths('a refused address uses up nothing, with headers and with policies', (t, start) =>
  withinAnHour(async () => {
    const edge = await start(t, { certificates })
    const upstream = await startHttpUpstream(t)
    const https = await putHttpsEdge(edge)
    const office = await edge.policy('allow 127.0.0.1')
    const headers = { add: [['X-A', 'a'] as [string, string]], remove: [] }
    for (const [match, more] of Object.entries({
      '/policy': { policies: [office] },
      '/headers': { headers },
      '/both': { policies: [office], headers, response_headers: headers },
    }))
      await putRoute(edge, https, upstream, { match, ...limit(2, { key: 'route' }), ...more })
    for (const path of ['/policy', '/both'])
      assert.deepEqual(await statuses(edge, 4, { path, from: '127.0.0.2' }), { 403: 4 })
    await putRoute(edge, https, upstream, { match: '/plain' })
    const send = openSession(t, edge)
    assert.equal(await send('/plain'), 200)
    for (const path of ['/policy', '/headers', '/both'])
      assert.deepEqual([await send(path), await send(path), await send(path)], [200, 200, 429], path)
  }),
)

const keyed = (value: string, more: Get = {}): Get => ({ headers: [`X-Api-Key: ${value}`], ...more })

onBothPaths('with a header as the key each of its values has a count, and without one the address has', (t, start) =>
  withinAnHour(async () => {
    const edge = await start(t, { certificates })
    const upstream = await startHttpUpstream(t)
    const https = await putHttpsEdge(edge)
    const route = (match: string, more: object) =>
      putRoute(edge, https, upstream, { match, ...limit(2, { key: 'header:X-Api-Key', ...more }) })
    await route('/', {})
    await route('/short', { per_seconds: 60 })
    await route('/other', {})
    const send = (count: number, options: Get) => statuses(edge, count, options)
    assert.deepEqual(await send(3, keyed('alice')), { 200: 2, 429: 1 })
    assert.deepEqual(await send(1, keyed('alice', { from: '127.0.0.2' })), { 429: 1 }, 'from any address')
    assert.deepEqual(await send(1, { headers: ['x-API-key:   alice  '] }), { 429: 1 }, 'in any spelling of the name')
    assert.deepEqual(await send(3, keyed('Alice')), { 200: 2, 429: 1 }, 'another value')
    assert.deepEqual(await send(2, keyed('alice', { path: '/other' })), { 200: 2 }, 'another route')
    // Each of these counts for the address: no line, an empty one, two of them, and one that some servers take for it.
    const unclear: Get[] = [
      {},
      { headers: ['X-Api-Key:'] },
      { headers: ['X-Api-Key: a', 'X-Api-Key: b'] },
      { headers: ['X-Api-Key: c', 'X_Api_Key: d'] },
      { headers: ['X_Api_Key: e'] },
    ]
    for (const [number, options] of unclear.entries()) {
      const from = `127.0.1.${number}`
      assert.deepEqual(await send(2, { ...options, from }), { 200: 2 }, `${number}`)
      for (const each of unclear) assert.deepEqual(await send(1, { ...each, from }), { 429: 1 }, `${number}`)
    }
    assert.deepEqual(await send(3, keyed('x'.repeat(4_000))), { 200: 2, 429: 1 })
    const short = await send(9, keyed('alice', { path: '/short' }))
    assert.ok((short[200] ?? 0) <= 4, 'a minute may have begun')
    const { body } = await get(edge, keyed('alice'))
    assert.equal(JSON.parse(body).error_code, 'ERR_ROUTE_LIMIT')
    const known = await ask(edge.settings.runtimeSocket, 'show table rates_long_values')
    assert.ok(known.includes('gpc0=') && !known.includes('alice'), 'values are kept as hashes')
    await edge.restartAgent()
    assert.deepEqual(await send(1, keyed('alice')), { 429: 1 }, 'counted before the restart')
  }),
)

onBothPaths('a limit of the cell is divided by its nodes, and shut while their number is not known', (t, start) =>
  withinAnHour(async () => {
    const edge = await start(t, { certificates })
    const upstream = await startHttpUpstream(t)
    const account = id('ac')
    await putRoute(edge, await putHttpsEdge(edge), upstream, {
      account,
      ...limit(5, { scope: 'cell', key: 'header:X-Api-Key' }),
    })
    assert.deepEqual(await statuses(edge, 2, keyed('a')), { 500: 2 })
    for (const [nodes, share] of [
      [1, 5],
      [2, 2],
      [6, 1],
    ] as const) {
      await edge.put({ [`cell_nodes.${account}`]: { nodes } })
      assert.deepEqual(await statuses(edge, 7, keyed(`${nodes}`)), { 200: share, 429: 7 - share })
    }
    await edge.restartAgent()
    assert.deepEqual(await statuses(edge, 1, keyed('6')), { 429: 1 })
    await edge.put({ [`cell_nodes.${account}`]: null })
    assert.deepEqual(await statuses(edge, 1, keyed('b')), { 500: 1 })
  }),
)

test('a client that invents values gets a hundred counts and that of its address, and others keep theirs', (t) =>
  withinAnHour(async () => {
    const edge = await startEdge(t, { certificates })
    const upstream = await startHttpUpstream(t)
    await putRoute(edge, await putHttpsEdge(edge), upstream, limit(1, { key: 'header:X-Api-Key' }))
    const hostile = '127.0.0.66'
    const passed: Record<number, number> = {}
    for (let number = 0; number < 150; number++) {
      const { status } = await get(edge, keyed(`${number}`, { from: hostile }))
      passed[status] = (passed[status] ?? 0) + 1
    }
    assert.deepEqual(passed, { 200: headerValuesOfSource + 1, 429: 49 })
    assert.deepEqual(await statuses(edge, 2, keyed('bob')), { 200: 1, 429: 1 }, 'a client at another address')
    assert.deepEqual(await statuses(edge, 1, keyed('7')), { 429: 1 }, 'a count that has begun is known from everywhere')

    // In a full table nothing loses its count, and new values count for addresses.
    const { runtimeSocket } = edge.settings
    const shown = async () => (await ask(runtimeSocket, 'show table rates_long_values data.gpc0 gt 9')).split('\n')[0]
    const size = Number(/size:(\d+)/.exec((await shown()) ?? '')?.[1])
    const set = (key: string) => `set table rates_long_values key ${key} data.gpc0 1`
    for (let number = 0; number < size; number += 500)
      await ask(runtimeSocket, Array.from({ length: 500 }, (_, at) => set(`full.${number + at}`)).join(';'))
    assert.match((await shown()) ?? '', new RegExp(`used:${size}$`))
    assert.deepEqual(await statuses(edge, 1, keyed('bob')), { 429: 1 })
    const later = ['a', 'b', 'c', 'd'].map((value) => statuses(edge, 1, keyed(value, { from: '127.0.0.3' })))
    const counts = (await Promise.all(later)).map((each) => each[200] ?? 0)
    assert.equal(
      counts.reduce((sum, count) => sum + count, 0),
      1,
      'one limit for the address',
    )
    assert.deepEqual(await statuses(edge, 2, keyed('e', { from: '127.0.0.4' })), { 200: 1, 429: 1 }, 'and for another')
  }))

onBothPaths('a warning by value lets through and says so', (t, start) =>
  withinAnHour(async () => {
    const edge = await start(t, { certificates })
    const upstream = await startHttpUpstream(t)
    const https = await putHttpsEdge(edge)
    const more = limit(1, { key: 'header:X-Api-Key', mode: 'warn' })
    const route = await putRoute(edge, https, upstream, more)
    for (const value of ['a', 'b']) assert.deepEqual(await statuses(edge, 2, keyed(value)), { 200: 2 })
    const told = await poll(
      () => edge.lines.filter(({ request }) => request.route === route).map(({ request }) => request.outcome),
      (outcomes) => outcomes.length === 4,
    )
    assert.deepEqual(told, ['allowed', 'warned', 'allowed', 'warned'])
  }),
)

test('many clients at once never get more than the limit, and no one is limited by the requests of another', (t) =>
  withinAnHour(async () => {
    const edge = await startEdge(t, { certificates })
    const upstream = await startHttpUpstream(t)
    await putRoute(edge, await putHttpsEdge(edge), upstream, limit(20))
    const sources = Array.from({ length: 8 }, (_, index) => `127.0.3.${index + 1}`)
    const clients = sources.flatMap((from) => [0, 1].map(() => ({ from, sent: statuses(edge, 15, { from }) })))
    const bySource = new Map<string, Record<number, number>[]>()
    for (const { from, sent } of clients) bySource.set(from, [...(bySource.get(from) ?? []), await sent])
    for (const [from, [one = {}, two = {}]] of bySource)
      assert.deepEqual([(one[200] ?? 0) + (two[200] ?? 0), (one[429] ?? 0) + (two[429] ?? 0)], [20, 10], from)
    await edge.restartAgent()
    assert.deepEqual(await statuses(edge, 1, { from: sources[0] ?? '' }), { 429: 1 }, 'counted before the restart')
  }))

test('a new window begins with nothing counted, and requests of one HTTP/2 connection count each', async (t) => {
  const edge = await startEdge(t, { certificates })
  const upstream = await startHttpUpstream(t)
  await putRoute(edge, await putHttpsEdge(edge), upstream, limit(2, { per_seconds: 2 }))
  const send = openSession(t, edge)
  const byWindow = new Map<number, number>()
  while (byWindow.size < 4) {
    const windows = [Date.now()]
    const status = await send()
    windows.push(Date.now())
    const [before, after] = windows.map((at) => Math.floor(at / 2_000))
    // One that was under way while a window began may belong to either.
    if (status === 200 && before === after) byWindow.set(before ?? 0, (byWindow.get(before ?? 0) ?? 0) + 1)
    assert.ok(status === 200 || status === 429, `${status}`)
  }
  const counts = [...byWindow.values()]
  assert.ok(Math.max(...counts) <= 2, `${counts}`)
})
