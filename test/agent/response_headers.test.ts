// What clients get of a route's response_headers, through a real HAProxy.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { connect as connectHttp2 } from 'node:http2'
import { type TestContext, test } from 'node:test'
import { freePorts } from '../../dev/ports.ts'
import { ask } from '../../src/agent/haproxy/process/runtime.ts'
import { exchange, get, putHttpsEdge, putRoute } from './http_harness.ts'
import { type Edge, id, onBothPaths, startEdge } from './proxy_harness.ts'

const certificates = ['app.example.com']
type Lines = [name: string, value: string][]

/** Answers with these headers, which may name one several times. */
async function startAnswering(t: TestContext, headers: Record<string, string | string[]>, status = 200) {
  const upstream = { port: 0, requests: 0 }
  const server = createServer((_, response) => {
    upstream.requests++
    response.writeHead(status, { ...headers, 'content-length': 2 }).end('ok')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  upstream.port = (server.address() as { port: number }).port
  return upstream
}

const linesOf = (head: string): Lines =>
  head
    .split('\r\n')
    .slice(1)
    .map((line) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 1).trim()])

async function overHttp2({ httpsPort }: Edge, path: string): Promise<Lines> {
  const session = connectHttp2(`https://127.0.0.1:${httpsPort}`, {
    rejectUnauthorized: false,
    servername: 'app.example.com',
  })
  const stream = session.request({ ':path': path, ':authority': 'app.example.com' })
  const [headers] = await once(stream, 'response')
  session.destroy()
  return Object.entries(headers as Record<string, string | string[]>).flatMap(([name, value]) =>
    [value].flat().map((each): [string, string] => [name, String(each)]),
  )
}
/** What a client gets for a path, over each version of HTTP. */
const versions: Record<string, (edge: Edge, path: string) => Promise<Lines>> = {
  'HTTP/1.1': async (edge, path) => linesOf((await get(edge, { path })).head),
  'HTTP/2': overHttp2,
}
const valuesOf = (lines: Lines, name: string): string[] => lines.filter(([each]) => each === name).map(([, it]) => it)

onBothPaths('response headers are removed, replaced and added, and all others pass unchanged', async (t, start) => {
  const edge = await start(t, { certificates })
  const upstream = await startAnswering(t, {
    'X-Powered-By': ['one', 'two'],
    'x-frame-options': ['SAMEORIGIN', 'ALLOW'],
    'Set-Cookie': ['session=1', 'theme=dark'],
    'Content-Type': 'text/html',
    'X-Kept': '%0d%0aX-Evil: 1',
  })
  const https = await putHttpsEdge(edge)
  const add: Lines = [
    ['X-Frame-Options', 'DENY'],
    ['Strict-Transport-Security', 'max-age=31536000; includeSubDomains'],
    ['Set-Cookie', 'edge=1; Path=/'],
    ['Cache-Control', 'no-store'],
    ['X-Empty', ''],
    ['__proto__', 'p'],
    ['X-Escapes', '\\x0d\\x0aX-Evil: 1 \\1 %0d%0aX-Evil: 2 %[src] "|" a|b'],
    ['X-Long', 'v'.repeat(4_096)],
  ]
  await putRoute(edge, https, upstream, {
    response_headers: { add, remove: ['x-powered-BY', 'X-Not-There', 'Server'] },
  })
  await putRoute(edge, https, upstream, { match: '/without' })
  for (const [version, send] of Object.entries(versions)) {
    const lines = await send(edge, '/')
    for (const [name, value] of add.filter(([each]) => each !== 'Set-Cookie'))
      assert.deepEqual(valuesOf(lines, name.toLowerCase()), [value], `${name} over ${version}`)
    assert.deepEqual(valuesOf(lines, 'set-cookie'), ['session=1', 'theme=dark', 'edge=1; Path=/'])
    assert.deepEqual(valuesOf(lines, 'x-powered-by'), [])
    assert.deepEqual(valuesOf(lines, 'x-evil'), [])
    assert.deepEqual(valuesOf(lines, 'content-type'), ['text/html'])
    assert.deepEqual(valuesOf(lines, 'content-length'), ['2'])
    assert.deepEqual(valuesOf(lines, 'x-kept'), ['%0d%0aX-Evil: 1'])
    assert.equal(valuesOf(lines, 'x-request-id').length, 1)
    const others = await send(edge, '/without')
    assert.deepEqual(valuesOf(others, 'x-powered-by').join(', '), 'one, two')
    assert.deepEqual(valuesOf(others, 'cache-control'), [])
  }
})

/** Each with a header of the upstream's content, and one that tells browsers what they may do. */
const both: { add: Lines; remove: string[] } = {
  add: [
    ['Cache-Control', 'public, max-age=31536000'],
    ['Content-Type', 'text/html'],
    ['Set-Cookie', 'a=b'],
    ['Strict-Transport-Security', 'max-age=1'],
    ['Access-Control-Allow-Origin', '*'],
  ],
  remove: ['Retry-After', 'Content-Type'],
}
const shown = (lines: Lines) => ({
  ...{ cache: valuesOf(lines, 'cache-control'), type: valuesOf(lines, 'content-type') },
  ...{ cookie: valuesOf(lines, 'set-cookie'), hsts: valuesOf(lines, 'strict-transport-security') },
  ...{ origin: valuesOf(lines, 'access-control-allow-origin'), ids: valuesOf(lines, 'x-request-id').length },
})
const ownAnswer = { cache: [], type: ['application/json'], cookie: [], hsts: ['max-age=1'], origin: ['*'], ids: 1 }
const tenants = {
  ...{ cache: ['public, max-age=31536000'], type: ['text/html'], cookie: ['a=b'] },
  ...{ hsts: ['max-age=1'], origin: ['*'], ids: 1 },
}

onBothPaths("the edge's own answers get only what suits every answer, and keep their own", async (t, start) => {
  const edge = await start(t, { certificates })
  const https = await putHttpsEdge(edge)
  const upstream = await startAnswering(t, {})
  const failing = await startAnswering(t, {}, 503)
  const [dead = 0] = await freePorts(1)
  const rude = await startHangingUp(t)
  const response = id('bkdhr')
  await edge.put({ [`response.${response}`]: { status: 503, headers: [['Retry-After', '5']], body: 'soon' } })
  const route = (match: string, to: { port: number }, more: object = {}) =>
    putRoute(edge, https, to, { match, response_headers: both, ...more })
  await route('/refused', upstream, { policies: [await edge.policy('deny 0.0.0.0/0')] })
  await route('/none', upstream, { backend: null })
  await route('/dead', { port: dead })
  await route('/rude', rude)
  await route('/unknown', upstream, { backend: id('bkdhr') })
  await route('/upstream', upstream)
  await route('/failing', failing)
  await route('/response', upstream, { backend: response })
  const expected = {
    '/refused': [403, ownAnswer],
    '/none': [503, ownAnswer],
    '/dead': [503, ownAnswer],
    '/rude': [502, ownAnswer],
    '/unknown': [503, ownAnswer],
    '/upstream': [200, tenants],
    '/failing': [503, tenants],
    '/response': [503, tenants],
  }
  const seen: Record<string, unknown> = {}
  for (const path of Object.keys(expected)) {
    const { status, head } = await get(edge, { path })
    seen[path] = [status, shown(linesOf(head))]
    assert.deepEqual(shown(await overHttp2(edge, path)), shown(linesOf(head)), path)
  }
  assert.deepEqual(seen, expected)
  // No route, no module.
  assert.deepEqual(shown(linesOf((await get(edge, { path: '/elsewhere' })).head)).hsts, [])
})

async function startHangingUp(t: TestContext) {
  const server = createServer((request) => request.socket.destroy()).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => server.close())
  return { port: (server.address() as { port: number }).port }
}

onBothPaths('lists that are missing or cut off stop the request before the upstream', async (t, start) => {
  const edge = await start(t, { certificates })
  const https = await putHttpsEdge(edge)
  const upstream = await startAnswering(t, {})
  const route = await putRoute(edge, https, upstream, { response_headers: both })
  assert.equal((await get(edge)).status, 200)
  const map = `${edge.settings.folder}/maps/response_lists.map`
  const [entry] = edge.all().filter((each) => each.map === 'response_lists')
  for (const value of ['x', '-', entry?.value.slice(0, 40), entry?.value.slice(0, -1)]) {
    await ask(edge.settings.runtimeSocket, `set map ${map} ${route} ${value}`)
    assert.equal((await get(edge)).status, 500, value)
  }
  await ask(edge.settings.runtimeSocket, `del map ${map} ${route}`)
  assert.equal((await get(edge)).status, 500)
  assert.equal(upstream.requests, 1)
})

test('the largest lists fit beside the largest headers of an upstream', async (t) => {
  const edge = await startEdge(t, { certificates })
  const https = await putHttpsEdge(edge)
  const upstream = await startAnswering(t, { 'x-large': 'u'.repeat(14_000) })
  const add = Array.from({ length: 46 }, (_, at): [string, string] => [`x-${'n'.repeat(250)}${at + 10}`, ''])
  await putRoute(edge, https, upstream, { response_headers: { add, remove: [] } })
  const values = Array.from({ length: 3 }, (_, at): [string, string] => [`x-value-${at}`, 'v'.repeat(3_900)])
  await putRoute(edge, https, upstream, { match: '/values', response_headers: { add: values, remove: [] } })
  for (const send of Object.values(versions)) {
    const named = (await send(edge, '/')).filter(([name]) => name.startsWith('x-nnn'))
    assert.equal(named.length, 46)
    const lines = await send(edge, '/values')
    assert.deepEqual(
      values.map(([name]) => valuesOf(lines, name)[0]?.length),
      [3_900, 3_900, 3_900],
    )
    assert.equal(valuesOf(lines, 'x-large')[0]?.length, 14_000)
  }
})

test('they hold with several servers, after a new agent, a reload and a change', async (t) => {
  const edge = await startEdge(t, { certificates })
  const https = await putHttpsEdge(edge)
  const upstream = await startAnswering(t, {})
  const backend = id('bkdst')
  await edge.put({
    [`backend.${backend}`]: {
      ...{ address: '127.0.0.1', addresses: ['127.0.0.1', '127.0.0.1'], port: upstream.port },
      ...{ tls: false, host: 'upstream.test' },
    },
  })
  const set = (value: string) => ({ add: [['X-Edge', value]] as Lines, remove: [] })
  const route = await putRoute(edge, https, upstream, { backend, response_headers: set('1') })
  const value = async () => valuesOf(linesOf((await get(edge)).head), 'x-edge')
  assert.deepEqual(await value(), ['1'])
  await edge.restartAgent()
  assert.deepEqual(await value(), ['1'])
  // A key that was added by hand makes the next agent reload.
  await ask(edge.settings.runtimeSocket, `add map ${edge.settings.folder}/maps/host.map app.example.com edghts_x`)
  await edge.restartAgent()
  assert.deepEqual(await value(), ['1'])
  const record = { account: id('ac'), edge: https, match_type: 'path_prefix', match: '/', backend, policies: null }
  await edge.put({ [`route.${route}`]: { ...record, headers: null, response_headers: set('2') } })
  assert.deepEqual(await value(), ['2'])
  await edge.put({ [`route.${route}`]: { ...record, headers: null } })
  assert.deepEqual(await value(), [])
})

test('what a request asks for changes nothing about them', async (t) => {
  const edge = await startEdge(t, { certificates })
  const https = await putHttpsEdge(edge)
  const upstream = await startAnswering(t, {})
  await putRoute(edge, https, upstream, { response_headers: { add: [['X-Edge', '1']], remove: [] } })
  for (const line of [
    'Connection: X-Edge',
    'Connection: close, x-edge',
    'TE: trailers',
    'x_edge: 2',
    'X-Forwarded-For: 1',
  ]) {
    const { status, head } = await exchange(edge, `GET / HTTP/1.1\r\nHost: app.example.com\r\n${line}\r\n\r\n`)
    assert.deepEqual([status, valuesOf(linesOf(head), 'x-edge')], [200, ['1']], line)
  }
})
