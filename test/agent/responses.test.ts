// http_response backends through a real HAProxy.
import assert from 'node:assert/strict'
import { connect as connectHttp2, type IncomingHttpHeaders } from 'node:http2'
import { Agent, request } from 'node:https'
import { type TestContext, test } from 'node:test'
import { ask } from '../../src/agent/haproxy/process/runtime.ts'
import { poll } from '../harness/poll.ts'
import { get, putHttpsEdge, putRoute } from './http_harness.ts'
import { type Edge, id, onBothPaths, startEdge } from './proxy_harness.ts'

type Response = { status: number; headers: [string, string][]; body: string }
type Start = typeof startEdge
const certificates = ['app.example.com']
const nowhere = { port: 9 }
const uuid7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/

/** Resolves to the id of the backend. */
async function putResponse(edge: Edge, response: Partial<Response>, name = id('bkdhr')): Promise<string> {
  await edge.put({ [`response.${name}`]: { status: 200, headers: [], body: '', ...response } })
  return name
}
async function edgeThatResponds(t: TestContext, start: Start, response: Partial<Response>, more: object = {}) {
  const edge = await start(t, { certificates })
  const backend = await putResponse(edge, response)
  const https = await putHttpsEdge(edge)
  await putRoute(edge, https, nowhere, { backend, ...more })
  return { edge, https, backend }
}

type Got = { status: number; headers: Record<string, unknown>; body: string }
type Sent = { path?: string; method?: string; body?: Buffer; agent?: Agent }

function overHttp1({ httpsPort }: Edge, { path = '/', method = 'GET', body, agent }: Sent = {}): Promise<Got> {
  const options = { host: '127.0.0.1', port: httpsPort, path, method, servername: 'app.example.com' }
  return new Promise((resolve, reject) => {
    const sent = request(
      { ...options, ...(agent && { agent }), headers: { host: 'app.example.com' }, rejectUnauthorized: false },
      async (response) => {
        const chunks: Buffer[] = []
        for await (const chunk of response) chunks.push(chunk)
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks).toString() })
      },
    )
    sent.once('error', reject)
    sent.end(body)
  })
}

function overHttp2({ httpsPort }: Edge, { path = '/', method = 'GET', body }: Sent = {}): Promise<Got> {
  const session = connectHttp2(`https://127.0.0.1:${httpsPort}`, {
    rejectUnauthorized: false,
    servername: 'app.example.com',
  })
  return new Promise<Got>((resolve, reject) => {
    const stream = session.request(
      { ':method': method, ':path': path, ':authority': 'app.example.com' },
      { endStream: body === undefined },
    )
    let headers: IncomingHttpHeaders = {}
    const chunks: Buffer[] = []
    stream.on('response', (got) => {
      headers = got
    })
    stream.on('data', (chunk) => chunks.push(chunk))
    stream.on('error', reject)
    stream.on('end', () =>
      resolve({ status: Number(headers[':status']), headers, body: Buffer.concat(chunks).toString() }),
    )
    if (body !== undefined) stream.end(body)
  }).finally(() => session.destroy())
}
const versions = { 'HTTP/1.1': overHttp1, 'HTTP/2': overHttp2 }

onBothPaths('a response backend answers with its status, headers and body, and an id', async (t, start) => {
  const body = 'Grüße 漢字 🙂\r\n\n"%[src]" \\ ; | %41 {}\n'
  const headers: [string, string][] = [
    ['X-Reason', 'a; b|c=d&e %0d%0aX-Evil: 1 \\r\\n'],
    ['Retry-After', '120'],
    ['Cache-Control', 'no-store'],
    ['x_odd.name', ''],
  ]
  const { edge, backend } = await edgeThatResponds(t, start, { status: 503, headers, body })
  const ids = new Set<unknown>()
  for (const [version, send] of Object.entries(versions)) {
    for (const method of ['GET', 'POST', 'DELETE', 'OPTIONS', 'FOO']) {
      const got = await send(edge, { method })
      assert.equal(got.status, 503, version)
      assert.equal(got.body, body)
      assert.equal(got.headers['content-length'], String(Buffer.byteLength(body)))
      assert.equal(got.headers['content-type'], 'text/plain; charset=utf-8')
      for (const [name, value] of headers) assert.equal(got.headers[name.toLowerCase()], value)
      assert.equal(got.headers['x-evil'], undefined)
      assert.match(String(got.headers['x-request-id']), uuid7)
      ids.add(got.headers['x-request-id'])
    }
    const head = await send(edge, { method: 'HEAD' })
    assert.equal(head.status, 503)
    assert.equal(head.body, '')
    assert.equal(head.headers['content-length'], String(Buffer.byteLength(body)))
    assert.equal(head.headers['retry-after'], '120')
  }
  assert.equal(ids.size, 10)
  for (const status of [200, 299, 302, 404, 418, 500, 599]) {
    await putResponse(edge, { status, headers: [['content-type', 'text/html']], body: `<p>${status}</p>` }, backend)
    for (const send of Object.values(versions)) {
      const got = await send(edge)
      assert.equal(got.status, status)
      assert.equal(got.body, `<p>${status}</p>`)
      assert.equal(got.headers['content-type'], 'text/html')
    }
  }
})

test('an answer may be as large as the API allows', async (t) => {
  const body = `${'漢'.repeat(2_730)}é`
  assert.equal(Buffer.byteLength(body), 8_192)
  const headers: [string, string][] = [
    ['X-Large', 'x'.repeat(4_096)],
    ['X-Encoded', '"'.repeat(620)],
  ]
  const { edge } = await edgeThatResponds(t, startEdge, { status: 404, headers, body })
  for (const send of Object.values(versions)) {
    const got = await send(edge)
    assert.equal(got.status, 404)
    assert.equal(got.body, body)
    for (const [name, value] of headers) assert.equal(got.headers[name.toLowerCase()], value)
  }
})

test('a status without a body is sent without Content-Length and Content-Type', async (t) => {
  const { edge, backend } = await edgeThatResponds(t, startEdge, { status: 204 })
  for (const status of [204, 304]) {
    await putResponse(edge, { status }, backend)
    for (const send of Object.values(versions)) {
      const got = await send(edge)
      assert.equal(got.status, status)
      assert.equal(got.body, '')
      assert.equal(got.headers['content-length'], undefined)
      assert.equal(got.headers['content-type'], undefined)
    }
  }
})

onBothPaths('addresses are refused before anything is answered, and reported', async (t, start) => {
  const edge = await start(t, { certificates })
  const backend = await putResponse(edge, { body: 'secret' })
  const https = await putHttpsEdge(edge)
  const policy = await edge.policy('allow 127.0.0.2')
  await putRoute(edge, https, nowhere, { backend, policies: [policy] })
  const restricted = id('ac')
  await edge.put({ [`restrictions.${restricted}`]: { sets: [{ id: id('ipx'), enforced: true, policies: [policy] }] } })
  await putRoute(edge, https, nowhere, { match: '/restricted', backend, account: restricted })
  for (const path of ['/', '/restricted']) {
    assert.equal((await get(edge, { path, from: '127.0.0.2' })).body, 'secret')
    const refused = await get(edge, { path })
    assert.equal(refused.status, 403)
    assert.doesNotMatch(refused.body, /secret/)
  }
  await poll(
    () => edge.events.length,
    (count) => count === 2,
  )
})

onBothPaths('a response that has not arrived, was deleted or cannot be read is never another one', async (t, start) => {
  const edge = await start(t, { certificates })
  const https = await putHttpsEdge(edge)
  const missing = id('bkdhr')
  const known = await putResponse(edge, { body: "someone else's" })
  await putRoute(edge, https, nowhere, { backend: missing })
  await putRoute(edge, https, nowhere, { match: '/known', backend: known })
  const statusOf = async () => {
    const got = await overHttp1(edge)
    assert.match(String(got.headers['x-request-id']), uuid7)
    assert.doesNotMatch(got.body, /someone/)
    return got.status
  }
  assert.equal(await statusOf(), 503)
  await putResponse(edge, { status: 200, body: 'mine' }, missing)
  assert.equal((await overHttp1(edge)).body, 'mine')
  for (const value of ['x', '200', '200|', '200||!', '20||', '200|a=b%0d%0ac|', '200|a|', '200|=b|', '200||||', '-'])
    await t.test(value, async () => {
      await ask(edge.settings.runtimeSocket, `set map ${edge.settings.folder}/maps/response.map ${missing} ${value}`)
      assert.equal(await statusOf(), 500)
    })
  await edge.put({ [`response.${missing}`]: null })
  assert.equal(await statusOf(), 503)
  assert.equal((await overHttp1(edge, { path: '/known' })).body, "someone else's")
})

test('each route gets its own answer while others change, on one connection, and after a restart', async (t) => {
  const edge = await startEdge(t, { certificates })
  const https = await putHttpsEdge(edge)
  const names = Array.from({ length: 300 }, () => id('bkdhr'))
  const agent = new Agent({ keepAlive: true, maxSockets: 4 })
  t.after(() => agent.destroy())
  const put = (version: number) =>
    edge.put(
      Object.fromEntries(
        names.map((name, index) => [
          `response.${name}`,
          { status: 300 + (index % 4), headers: [['X-Index', String(index)]], body: `${index} version ${version}` },
        ]),
      ),
    )
  const ask = async (index: number) => {
    const got = await overHttp1(edge, { path: `/r${index}/`, agent })
    assert.deepEqual(
      [got.status, got.headers['x-index'], got.body.split(' ')[0]],
      [300 + (index % 4), `${index}`, `${index}`],
    )
    return got.body
  }
  const indexes = [...names.keys()]
  await put(0)
  for (const index of indexes) await putRoute(edge, https, nowhere, { match: `/r${index}/`, backend: names[index] })
  const changes = (async () => {
    for (let version = 1; version <= 5; version++) await put(version)
  })()
  for (let round = 0; round < 3; round++) await Promise.all(indexes.map(ask))
  await changes
  await edge.restartAgent()
  for (const index of indexes) assert.equal(await ask(index), `${index} version 5`)
  assert.deepEqual(edge.troubles, [])
})

test('a request body breaks neither the answer nor the next request', async (t) => {
  const { edge } = await edgeThatResponds(t, startEdge, { status: 503, body: 'closed for maintenance' })
  for (const size of [1, 20_000, 200_000, 5_000_000]) {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    t.after(() => agent.destroy())
    const body = Buffer.alloc(size, 'x')
    for (const send of [overHttp1, overHttp2]) {
      const got = await send(edge, { method: 'POST', body, agent })
      assert.equal(got.body, 'closed for maintenance', `${size}`)
      // HAProxy 3.4 may never read what follows a body that it was still reading when it answered.
      assert.equal(got.headers.connection, send === overHttp1 ? 'close' : undefined)
    }
    assert.equal((await overHttp1(edge, { agent })).status, 503)
  }
})

test('a response backend accepts no WebSocket, although its status would over HTTP/2', async (t) => {
  const { edge } = await edgeThatResponds(t, startEdge, { status: 200, body: 'hello' })
  const session = connectHttp2(`https://127.0.0.1:${edge.httpsPort}`, {
    rejectUnauthorized: false,
    servername: 'app.example.com',
  })
  t.after(() => session.destroy())
  await new Promise((resolve) => session.once('remoteSettings', resolve))
  const stream = session.request({
    ...{ ':method': 'CONNECT', ':protocol': 'websocket', ':path': '/', ':authority': 'app.example.com' },
    ...{ 'sec-websocket-version': '13' },
  })
  const status = await new Promise((resolve) => stream.once('response', (got) => resolve(got[':status'])))
  assert.equal(status, 400)
  const upgrade = [
    'Connection: upgrade',
    'Upgrade: websocket',
    'Sec-WebSocket-Version: 13',
    'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
  ]
  const plain = await get(edge, { headers: upgrade })
  assert.equal(plain.status, 200)
  assert.equal(plain.body, 'hello')
})

test('answers that the client does not read count as requests in flight', async (t) => {
  const limits = { perSource: 20, perEdge: 1_000, perAccount: 1_000, unlimitedSources: [] }
  const edge = await startEdge(t, { certificates, limits })
  const backend = await putResponse(edge, { body: 'x'.repeat(8_192) })
  await putRoute(edge, await putHttpsEdge(edge), nowhere, { backend })
  const session = connectHttp2(`https://127.0.0.1:${edge.httpsPort}`, {
    ...{ rejectUnauthorized: false, servername: 'app.example.com' },
    settings: { initialWindowSize: 0 },
  })
  session.on('error', () => {})
  t.after(() => session.destroy())
  const statuses: Promise<number>[] = []
  for (let count = 0; count < 40; count++) {
    const stream = session.request({ ':path': '/', ':authority': 'app.example.com' })
    stream.on('error', () => {})
    statuses.push(new Promise((resolve) => stream.once('response', (got) => resolve(Number(got[':status'])))))
  }
  const got = await Promise.all(statuses)
  const answered = got.filter((status) => status === 200).length
  assert.ok(answered >= 20 && answered <= 24, `${answered} answered`)
  assert.equal(got.filter((status) => status === 503).length, 40 - answered)
})
