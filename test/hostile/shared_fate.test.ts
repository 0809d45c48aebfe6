// No source, edge or account can use up a node. Row 2 of the review.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect as connectHttp2 } from 'node:http2'
import { createServer, type Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import { connect as connectTls } from 'node:tls'
import { usageMetrics } from '../../src/agent/haproxy/config/limits.ts'
import { parseCidr } from '../../src/kernel/ip/cidr.ts'
import { get, putHttpsEdge, putRoute, type RouteOptions, startHttpUpstream } from '../agent/http_harness.ts'
import { type Edge, firstBytes, id, openConnection, startEdge, startUpstream } from '../agent/proxy_harness.ts'
import { holdsFor, pause, poll } from '../harness/poll.ts'

const certificates = ['*.example.com']
const roomy = { perSource: 2_000, perEdge: 2_000, perAccount: 2_000, unlimitedSources: [] }

type TcpEdge = { port: number; upstreamPort: number; account?: string; hostports?: string[] }
async function putTcpEdge(edge: Edge, { port, upstreamPort, account = id('ac'), hostports }: TcpEdge) {
  const [tcp, backend] = [id('edgtcp'), id('bkdst')]
  await edge.put({
    [`backend.${backend}`]: { address: '127.0.0.1', port: upstreamPort, tls: false, host: 'upstream.test' },
    [`tcp.${tcp}`]: { account, hostports: hostports ?? [`127.0.0.1:${port}`], backend, policies: null },
  })
}

/** Sockets that only stay; `open` are those that were not closed. */
function idle(t: TestContext, count: number, visit: { port: number; from?: string }) {
  const open = new Set<Socket>()
  const sockets = Array.from({ length: count }, () => {
    const socket = openConnection(visit)
    socket.on('connect', () => open.add(socket))
    socket.on('close', () => open.delete(socket))
    socket.on('end', () => socket.destroy())
    socket.resume()
    return socket
  })
  const close = () => {
    for (const socket of sockets) socket.destroy()
  }
  t.after(close)
  return { open, close, settled: () => sockets.every((socket) => !socket.connecting) }
}

const metric = async (edge: Edge, name: string): Promise<number> =>
  ((await usageMetrics(edge.settings)) as Record<string, number>)[name] ?? Number.NaN
const overLimit = (edge: Edge, limit: string) => metric(edge, `gatehouse_edge_over_limit_total{limit="${limit}"}`)
const connections = (edge: Edge) => metric(edge, 'gatehouse_edge_connections')

async function startHonest(t: TestContext, edge: Edge) {
  const upstream = await startHttpUpstream(t, 'honest')
  await putRoute(edge, await putHttpsEdge(edge), upstream)
  const tcp = await startUpstream(t, 'hello')
  await putTcpEdge(edge, { port: edge.tcpPort + 1, upstreamPort: tcp.port })
  return async () => {
    const answer = await get(edge, { from: '127.0.0.1' })
    assert.deepEqual([answer.status, answer.body], [200, 'honest'])
    assert.equal(await firstBytes({ port: edge.tcpPort + 1, from: '127.0.0.3' }), 'hello')
  }
}

test('row 2: an edge that is its own backend uses a bounded share of the node, and releases it', async (t) => {
  const edge = await startEdge(t, { certificates })
  const works = await startHonest(t, edge)
  await putTcpEdge(edge, { port: edge.tcpPort, upstreamPort: edge.tcpPort })
  const clients = idle(t, 5, { port: edge.tcpPort, from: '127.0.0.2' })
  let most = 0
  for (let round = 0; round < 20; round++) {
    most = Math.max(most, await connections(edge))
    await works()
    await pause(20)
  }
  assert.ok(most < 300, `${most} connections at once`)
  await poll(async () => (await overLimit(edge, 'source')) > 0)
  clients.close()
  await poll(async () => (await connections(edge)) < 20)
  await works()
})

for (const way of ['tcp', 'https'] as const) {
  test(`row 2: idle ${way} connections from one address leave room for everybody else`, async (t) => {
    const edge = await startEdge(t, { certificates })
    const works = await startHonest(t, edge)
    const port = way === 'tcp' ? edge.tcpPort + 1 : edge.httpsPort
    const attack = idle(t, 400, { port, from: '127.0.0.2' })
    await poll(attack.settled)
    await poll(() => attack.open.size <= 100)
    assert.ok(attack.open.size > 50, `${attack.open.size} are within the limit of 100`)
    assert.ok((await overLimit(edge, 'source')) >= 300)
    await works()
    if (way === 'https') await poll(() => attack.open.size === 0)
    else attack.close()
    await poll(async () => (await connections(edge)) < 20)
    assert.equal(await firstBytes({ port: edge.tcpPort + 1, from: '127.0.0.2' }), 'hello')
  })
}

test('row 2: the operator can exempt load balancers from the per-source limit only', async (t) => {
  const unlimitedSources = ['127.0.0.2/31', '2001:db8::/32']
    .map((text) => parseCidr(text).cidr)
    .filter((cidr) => !!cidr)
  const edge = await startEdge(t, { limits: { perSource: 10, perEdge: 50, perAccount: 2_000, unlimitedSources } })
  const upstream = await startUpstream(t, 'hello')
  await putTcpEdge(edge, { port: edge.tcpPort, upstreamPort: upstream.port })
  const [exempt, other] = [
    idle(t, 30, { port: edge.tcpPort, from: '127.0.0.2' }),
    idle(t, 30, { port: edge.tcpPort, from: '127.0.0.4' }),
  ]
  await poll(() => exempt.settled() && other.settled())
  await poll(() => other.open.size === 10)
  assert.equal(exempt.open.size, 30)
  const more = idle(t, 30, { port: edge.tcpPort, from: '127.0.0.3' })
  await poll(() => more.settled() && more.open.size === 10)
  assert.deepEqual([await overLimit(edge, 'source'), await overLimit(edge, 'edge')], [20, 20])
})

test('row 2: TCP connections are limited by edge and by account', async (t) => {
  const edge = await startEdge(t, { limits: { ...roomy, perEdge: 20, perAccount: 30 } })
  const upstream = await startUpstream(t, 'hello')
  const account = id('ac')
  await putTcpEdge(edge, { port: edge.tcpPort, upstreamPort: upstream.port, account })
  await putTcpEdge(edge, { port: edge.tcpPort + 1, upstreamPort: upstream.port, account })
  await putTcpEdge(edge, { port: edge.tcpPort + 2, upstreamPort: upstream.port })
  const first = idle(t, 40, { port: edge.tcpPort })
  await poll(() => first.settled() && first.open.size === 20)
  const second = idle(t, 40, { port: edge.tcpPort + 1 })
  await poll(() => second.settled() && second.open.size === 10)
  assert.equal(await firstBytes({ port: edge.tcpPort + 2 }), 'hello', 'another account')
  assert.deepEqual([await overLimit(edge, 'edge'), await overLimit(edge, 'account')], [20, 30])
  first.close()
  await poll(async () => (await firstBytes({ port: edge.tcpPort + 1 })) === 'hello')
})

/** Takes requests and answers none. */
async function startSilent(t: TestContext) {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.resume()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return server.address() as { port: number }
}

const changes = { add: [['X-One', '1'] as [string, string]], remove: [] }
const policy = id('ipp')
// Requests leave the fast path in several places, each of which has to count them.
for (const [limit, share, kind, options] of [
  ['source', { perSource: 20 }, 'no module', {}],
  ['edge', { perEdge: 20 }, 'no module', {}],
  ['account', { perAccount: 20 }, 'no module', {}],
  ['edge', { perEdge: 20 }, 'response headers', { response_headers: changes }],
  ['edge', { perEdge: 20 }, 'request headers', { headers: changes }],
  ['edge', { perEdge: 20 }, 'timeouts', { timeouts: { response_seconds: 60 } }],
  ['edge', { perEdge: 20 }, 'a policy', { policies: [policy] }],
  ['edge', { perEdge: 20 }, 'a policy and request headers', { policies: [policy], headers: changes }],
] as [string, Partial<typeof roomy>, string, RouteOptions][]) {
  test(`row 2: HTTPS requests in flight to a route with ${kind} are limited by ${limit}, including those that share a connection`, async (t) => {
    const edge = await startEdge(t, { certificates, limits: { ...roomy, ...share } })
    const silent = await startSilent(t)
    const honest = await startHttpUpstream(t, 'honest')
    await edge.put({ [`policy.${policy}`]: await edge.writePolicyFile('allow 127.0.0.0/8') })
    await putRoute(edge, await putHttpsEdge(edge, ['slow.example.com:443']), silent, options)
    await putRoute(edge, await putHttpsEdge(edge), honest)
    const session = connectHttp2('https://slow.example.com', {
      createConnection: () =>
        connectTls({
          host: '127.0.0.1',
          port: edge.httpsPort,
          servername: 'slow.example.com',
          rejectUnauthorized: false,
          ALPNProtocols: ['h2'],
          ...{ localAddress: '127.0.0.2' },
        }),
    })
    t.after(() => session.destroy())
    const refusals: { status: number; body: string; retry: unknown }[] = []
    for (let index = 0; index < 60; index++) {
      const request = session.request({ ':path': '/', ':authority': 'slow.example.com' })
      request.on('error', () => {})
      request.on('response', async (headers) => {
        let body = ''
        for await (const text of request.setEncoding('utf8')) body += text
        refusals.push({ status: Number(headers[':status']), body, retry: headers['retry-after'] })
      })
    }
    // The first few are in flight before counting begins: at most half of the limit.
    await poll(() => refusals.length >= 30)
    await holdsFor(100, () => refusals.length <= 40)
    assert.deepEqual(refusals[0]?.status, 503)
    assert.deepEqual(JSON.parse(refusals[0]?.body ?? ''), {
      error_code: 'ERR_EDGE_LIMIT',
      status_code: 503,
      msg: 'Too many requests at once.',
      details: { limit },
    })
    assert.equal(refusals[0]?.retry, '1')
    assert.equal(await overLimit(edge, limit), refusals.length)
    assert.equal((await get(edge, { from: '127.0.0.1' })).body, 'honest')
    session.destroy()
    await poll(async () => (await connections(edge)) < 5)
    const again = await get(edge, { from: '127.0.0.2' })
    assert.equal(again.body, 'honest')
  })
}
