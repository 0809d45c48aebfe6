// What requests and connections see of native backends: methods, protocols, limits.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import {
  connect as connectHttp2,
  createServer as createHttp2Server,
  createSecureServer,
  type ServerHttp2Session,
} from 'node:http2'
import { createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { createServer as createTlsServer } from 'node:tls'
import { freePorts } from '../../dev/ports.ts'
import { poll } from '../harness/poll.ts'
import { get } from './http_harness.ts'
import {
  answersOf,
  httpCheck,
  onlyTheseNatives,
  routeTo,
  startNamedServer,
  staticBackend,
  tcpCheck,
} from './native_harness.ts'
import { type Edge, firstBytes, id, openConnection, selfSigned, startEdge, startUpstream } from './proxy_harness.ts'

const certificates = ['app.example.com']

/** Counts what it executes in a file of its own process, so that it can be killed at any time. */
async function startProcess(t: TestContext, address: string, port: number) {
  const program = `
    const http = require('node:http')
    http.createServer((request, response) => {
      request.resume().on('end', () => {
        process.stdout.write(request.method + ' ' + request.url + '\\n')
        response.end('ok')
      })
    }).listen(${port}, '${address}', () => process.stdout.write('ready\\n'))`
  const child = spawn(process.execPath, ['-e', program], { stdio: ['ignore', 'pipe', 'inherit'] })
  t.after(() => child.kill('SIGKILL'))
  let text = ''
  child.stdout.on('data', (bytes) => {
    text += bytes
  })
  await poll(() => text.startsWith('ready\n'))
  return { kill: () => child.kill('SIGKILL'), requests: () => text.split('\n').slice(1, -1) }
}

test('one of two servers is killed under load: no GET fails, and no POST is executed twice', async (t) => {
  const edge = await startEdge(t, { certificates })
  const [port = 0] = await freePorts(1)
  const servers = [await startProcess(t, '127.0.0.1', port), await startProcess(t, '127.0.0.2', port)] as const
  const backend = id('bkdst')
  const addresses = ['127.0.0.1', '127.0.0.2'].map((address) => ({ address, port }))
  await edge.put({ [`backend.${backend}`]: staticBackend(addresses, { health_check: tcpCheck }) })
  await routeTo(edge, backend, id('ac'))
  const statuses: Record<string, number> = {}
  let sent = 0
  const client = async () => {
    while (sent < 600) {
      const number = sent++
      if (number === 200) servers[0].kill()
      const method = number % 4 === 0 ? 'POST' : 'GET'
      const { status } = await get(edge, {
        method,
        path: `/${number}`,
        headers: method === 'POST' ? ['Content-Length: 0'] : [],
      })
      const key = `${method} ${status}`
      statuses[key] = (statuses[key] ?? 0) + 1
    }
  }
  await Promise.all(Array.from({ length: 8 }, client))
  assert.equal(statuses['GET 200'], 450, JSON.stringify(statuses))
  // A POST that was on its way to the killed server may have been executed: it is not repeated.
  const { 'GET 200': _, 'POST 200': done = 0, 'POST 502': unknown = 0, ...others } = statuses
  assert.deepEqual([done + unknown, others], [150, {}])
  assert.ok(unknown <= 8, `${unknown} without an answer`)
  const executed = servers.flatMap((server) => server.requests()).filter((line) => line.startsWith('POST'))
  assert.equal(new Set(executed).size, executed.length)
})

/** Answers /ok on a connection that stays, and closes every other without an answer. */
async function startClosingServer(t: TestContext) {
  const sockets = new Set<Socket>()
  const closing = { address: '127.0.0.1', port: 0, requests: [] as string[], connections: 0 }
  const server = createServer((socket) => {
    closing.connections++
    sockets.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => sockets.delete(socket))
    socket.on('data', (bytes) => {
      const line = /^[A-Z]+ \S+/.exec(String(bytes))?.[0] ?? ''
      closing.requests.push(line)
      if (line.endsWith(' /ok')) socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
      else socket.destroy()
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  closing.port = (server.address() as { port: number }).port
  t.after(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return closing
}

test('a POST goes out once, on a connection of its own, also after other requests', async (t) => {
  const edge = await startEdge(t, { certificates })
  const server = await startClosingServer(t)
  const backend = id('bkdst')
  await edge.put({
    [`backend.${backend}`]: staticBackend([server], { health_check: { ...tcpCheck, interval_seconds: 300 } }),
  })
  await routeTo(edge, backend, id('ac'))
  const session = connectHttp2(`https://127.0.0.1:${edge.httpsPort}`, {
    rejectUnauthorized: false,
    servername: 'app.example.com',
  }).on('error', () => {})
  t.after(() => session.destroy())
  const send = (method: string, path: string): Promise<string> =>
    new Promise((resolve) => {
      const stream = session.request({ ':method': method, ':path': path, ':authority': 'app.example.com' })
      stream.on('response', (headers) => resolve(String(headers[':status'])))
      stream.on('error', () => {})
      stream.on('close', () => resolve(`reset ${stream.rstCode}`))
      stream.resume().end()
    })
  // On one connection of a client: otherwise HAProxy itself would not use a kept one for its first request.
  for (let run = 0; run < 20; run++) {
    assert.equal(await send('GET', '/ok'), '200')
    assert.equal(await send('POST', '/ok'), '200')
    assert.equal(await send('POST', `/${run}`), '502')
  }
  const posts = server.requests.filter((line) => line.startsWith('POST') && !line.endsWith(' /ok'))
  assert.deepEqual(
    posts,
    Array.from({ length: 20 }, (_, run) => `POST /${run}`),
  )
})

test("a server's certificate must have the name of the backend, for requests and for checks", async (t) => {
  const caFolder = await selfSignedIn(t)
  const edge = await startEdge(t, { certificates, caFile: caFolder })
  const pem = await readFile(caFolder)
  const seen: string[] = []
  const server = createSecureServer({ key: pem, cert: pem, allowHTTP1: true }, (request, response) => {
    seen.push(`${request.httpVersion} ${request.url}`)
    response.setHeader('content-length', 6)
    response.end('secret')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => server.close())
  const { port } = server.address() as { port: number }
  const [account, right, wrong, http2] = [id('ac'), id('bkdst'), id('bkdst'), id('bkdst')]
  const record = (more: object) =>
    staticBackend([{ address: '127.0.0.1', port }], {
      tls: true,
      health_check: { ...httpCheck, path: '/health' },
      ...more,
    })
  await edge.put({
    [`backend.${right}`]: record({ host: 'upstream.test' }),
    [`backend.${wrong}`]: record({ host: 'other.test' }),
    [`backend.${http2}`]: record({ host: 'upstream.test', protocol: 'http2' }),
  })
  const route = await routeTo(edge, right, account)
  for (const [match, backend] of [
    ['/wrong', wrong],
    ['/h2', http2],
  ])
    await edge.put({ [`route.${id('edghtsrt')}`]: { ...route.record, match, backend } })
  assert.deepEqual(await answersOf(edge, 2), { secret: 2 })
  assert.deepEqual(await answersOf(edge, 2, { path: '/h2' }), { secret: 2 })
  assert.deepEqual(await answersOf(edge, 2, { path: '/wrong' }), { 503: 2 })
  // Even after the health checks.
  await poll(() => seen.includes('1.1 /health') && seen.includes('2.0 /health'))
  await poll(
    () => get(edge, { path: '/wrong' }),
    ({ body }) => body.includes('ERR_NO_HEALTHY_BACKEND'),
  )
  assert.deepEqual(await answersOf(edge, 2), { secret: 2 })
  assert.deepEqual(await answersOf(edge, 2, { path: '/h2' }), { secret: 2 })
  assert.ok(seen.includes('2.0 /h2') && !seen.some((line) => line.endsWith('/wrong')))
})

async function selfSignedIn(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-ca-'))
  t.after(() => rm(folder, { recursive: true }))
  return selfSigned({ certificateFolder: folder }, 'upstream.test')
}

test('HTTP/2 without TLS: calls are spread over servers, and each POST has a connection of its own', async (t) => {
  const edge = await startEdge(t, { certificates })
  const sessions: ServerHttp2Session[] = []
  const posts: ServerHttp2Session[] = []
  const server = createHttp2Server((request, response) => {
    if (request.method === 'POST' && request.stream.session) posts.push(request.stream.session as ServerHttp2Session)
    const body = `h2 ${request.method}`
    response.setHeader('content-length', body.length)
    response.end(body)
  }).listen(0, '127.0.0.1')
  server.on('session', (session) => sessions.push(session))
  await once(server, 'listening')
  t.after(() => {
    for (const session of sessions) session.destroy()
    server.close()
  })
  const { port } = server.address() as { port: number }
  const backend = id('bkdst')
  await edge.put({
    [`backend.${backend}`]: staticBackend([{ address: '127.0.0.1', port }], {
      protocol: 'http2',
      health_check: tcpCheck,
    }),
  })
  await routeTo(edge, backend, id('ac'))
  assert.deepEqual(await answersOf(edge, 5), { 'h2 GET': 5 })
  assert.deepEqual(await answersOf(edge, 5, { method: 'POST', headers: ['Content-Length: 0'] }), { 'h2 POST': 5 })
  assert.equal(new Set(posts).size, 5)
  // A check that only connects must not take the server down.
  await poll(() => sessions.length >= 8)
  assert.deepEqual(await answersOf(edge, 2), { 'h2 GET': 2 })
})

async function putTcp(edge: Edge, backend: string, account: string): Promise<void> {
  await edge.put({
    [`tcp.${id('edgtcp')}`]: { account, hostports: [`127.0.0.1:${edge.tcpPort}`], backend, policies: null },
  })
}

test('TCP edges: failover, the PROXY protocol, TLS, and a closed connection when all servers are down', async (t) => {
  const edge = await startEdge(t)
  const first = await startUpstream(t, 'first')
  const second = await startUpstream(t, 'second')
  const [account, group, one, two] = [id('ac'), id('bkdfo'), id('bkdst'), id('bkdst')]
  const record = (port: number) =>
    staticBackend([{ address: '127.0.0.1', port }], { health_check: tcpCheck, send_proxy_protocol: true })
  await edge.put({
    [`backend.${one}`]: record(first.port),
    [`backend.${two}`]: record(second.port),
    [`failover.${group}`]: { account, backends: [one, two] },
  })
  await putTcp(edge, group, account)
  assert.equal(await firstBytes({ port: edge.tcpPort }), 'first')
  await poll(() => first.received.startsWith('\r\n\r\n\0\r\nQUIT\n'))
  // One that is open stays when another server takes over.
  const open = openConnection({ port: edge.tcpPort })
  await once(open, 'data')
  first.server.close()
  await poll(
    () => firstBytes({ port: edge.tcpPort }),
    (bytes) => bytes === 'second',
  )
  assert.equal(open.destroyed, false)
  open.destroy()
  second.server.close()
  await poll(
    () => firstBytes({ port: edge.tcpPort }),
    (bytes) => bytes === '',
  )
  await onlyTheseNatives(edge, {
    [`${group}.tcp`]: [first.port, second.port].map((port) => `127.0.0.1:${port}`).sort(),
  })
})

test('TCP edges with TLS to servers: the name is verified', async (t) => {
  const caFile = await selfSignedIn(t)
  const edge = await startEdge(t, { caFile })
  const pem = await readFile(caFile)
  const server = createTlsServer({ key: pem, cert: pem }, (socket) => socket.end('secret')).listen(0, '127.0.0.1')
  server.on('tlsClientError', () => {})
  await once(server, 'listening')
  t.after(() => server.close())
  const { port } = server.address() as { port: number }
  const [account, backend] = [id('ac'), id('bkdst')]
  const record = (host: string) =>
    staticBackend([{ address: '127.0.0.1', port }], { tls: true, host, health_check: tcpCheck })
  await edge.put({ [`backend.${backend}`]: record('upstream.test') })
  await putTcp(edge, backend, account)
  assert.equal(await firstBytes({ port: edge.tcpPort }), 'secret')
  await edge.put({ [`backend.${backend}`]: record('other.test') })
  assert.equal(await firstBytes({ port: edge.tcpPort }), '')
})

test('servers that never answer hold a bounded part of the node, and the others get an answer', async (t) => {
  const limits = { perSource: 400, perEdge: 40, perAccount: 400, unlimitedSources: [] }
  const edge = await startEdge(t, { certificates, limits })
  const sockets = new Set<Socket>()
  const silent = createServer((socket) => {
    sockets.add(socket.on('error', () => {}))
  }).listen(0, '127.0.0.1')
  await once(silent, 'listening')
  t.after(() => {
    for (const socket of sockets) socket.destroy()
    silent.close()
  })
  const { port } = silent.address() as { port: number }
  const backend = id('bkdst')
  const slow = { ...tcpCheck, interval_seconds: 300 }
  await edge.put({ [`backend.${backend}`]: staticBackend([{ address: '127.0.0.1', port }], { health_check: slow }) })
  await routeTo(edge, backend, id('ac'))
  const codes: string[] = []
  for (let count = 0; count < 60; count++)
    void get(edge).then(({ status, body }) => status && codes.push(JSON.parse(body).error_code))
  // A server has half of what an edge may have open, and a quarter of that waits for it, for two seconds.
  await poll(() => codes.length === 40)
  assert.deepEqual([sockets.size, codes.filter((code) => code === 'ERR_EDGE_LIMIT').length], [20, 20])
  assert.deepEqual(new Set(codes), new Set(['ERR_EDGE_LIMIT', 'ERR_NO_BACKEND']))
})

test('the checked servers of an account are limited, and only the backend beyond the limit is refused', async (t) => {
  const perAccount = { servers: 3, checksPerSecond: 100 }
  const edge = await startEdge(t, { certificates, more: { nativeBudgets: { perAccount } } })
  const server = await startNamedServer(t, 'server')
  const [account, other] = [id('ac'), id('ac')]
  const backends = Array.from({ length: 5 }, () => id('bkdst')).sort()
  const checked = staticBackend([server], { health_check: tcpCheck })
  await edge.put(Object.fromEntries(backends.map((backend) => [`backend.${backend}`, checked])))
  const { record } = await routeTo(edge, backends[0] ?? '', account)
  const routes = backends.slice(1).map((backend, index) => {
    const key = `route.${id('edghtsrt')}`
    return [key, { ...record, account: index === 3 ? other : account, match: `/${index + 1}`, backend }] as const
  })
  await edge.put(Object.fromEntries(routes))
  const answers = []
  for (const index of backends.keys())
    answers.push(Object.keys(await answersOf(edge, 1, { path: `/${index || ''}` }))[0])
  assert.deepEqual(answers, ['server', 'server', 'server', '503', 'server'])
  const entry = edge.all().find(({ map, value }) => map === 'route' && value.includes(backends[3] ?? ''))
  assert.match(
    entry ? (edge.proxy.shadowed(entry) ?? '') : '',
    /^is not served by this node: more than 3 servers of one account/,
  )
  // What goes makes room.
  await edge.put({ [routes[0]?.[0] ?? '']: null })
  assert.deepEqual(await answersOf(edge, 1, { path: '/3' }), { server: 1 })
})
