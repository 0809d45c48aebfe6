// Why requests and connections fail at their upstreams, as the owner of the backend reads it.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { createServer as createTlsServer } from 'node:tls'
import { freePorts } from '../../dev/ports.ts'
import { createHealth } from '../../src/agent/reports/health.ts'
import { certificateFault } from '../../src/agent/upstreams/certificate_fault.ts'
import { createFailures } from '../../src/agent/upstreams/failures.ts'
import { poll } from '../harness/poll.ts'
import { authority } from './authority.ts'
import { type Answer, get, putHttpsEdge } from './http_harness.ts'
import { type Edge, firstBytes, id, onBothPaths, selfSigned, startEdge } from './proxy_harness.ts'

const certificates = ['app.example.com']
const hello = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok'

async function listen(t: TestContext, server: Server): Promise<number> {
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
  })
  server.on('tlsClientError', () => {})
  server.on('secureConnection', (socket: Socket) => socket.on('error', () => {}))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return (server.address() as { port: number }).port
}
const onRequest = (act: (socket: Socket) => void) => (socket: Socket) => void socket.once('data', () => act(socket))

/** One of each kind that fails, by its name, with TLS where the backend has TLS. */
async function startFailingUpstreams(t: TestContext) {
  const [ours, stranger] = [await authority(t), await authority(t)]
  const folder = join(ours.caFile, '..')
  const self = await readFile(await selfSigned({ certificateFolder: folder }, 'inner.test'))
  const answer = onRequest((socket) => socket.end(hello))
  const tls = async (pair: { key: Buffer; cert: Buffer }, options = {}) =>
    listen(t, createTlsServer({ ...pair, ...options }, answer))
  const [refused = 0] = await freePorts(1)
  return {
    caFile: ours.caFile,
    plain: {
      refused,
      silent: await listen(
        t,
        createServer(() => {}),
      ),
      closing: await listen(t, createServer(onRequest((socket) => socket.destroy()))),
      closingAtOnce: await listen(
        t,
        createServer((socket) => socket.destroy()),
      ),
      notHttp: await listen(t, createServer(onRequest((socket) => socket.end('SSH-2.0-OpenSSH\r\n')))),
      failingItself: await listen(
        t,
        createServer(
          onRequest((socket) => socket.end('HTTP/1.1 503 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n')),
        ),
      ),
      good: await listen(t, createServer(answer)),
    },
    tls: {
      refused,
      wrongName: await tls(await ours.issue('other.test')),
      expired: await tls(await ours.issue('inner.test', { days: -1 })),
      unknownCa: await tls(await stranger.issue('inner.test')),
      selfSigned: await tls({ key: self, cert: self }),
      plainHttp: await listen(t, createServer(answer)),
      silent: await listen(
        t,
        createServer(() => {}),
      ),
      closingAtOnce: await listen(
        t,
        createServer((socket) => socket.destroy()),
      ),
      needsCertificate: await tls(await ours.issue('inner.test'), {
        requestCert: true,
        rejectUnauthorized: true,
        maxVersion: 'TLSv1.2',
      }),
      oldTls: await tls(await ours.issue('inner.test'), {
        maxVersion: 'TLSv1.1',
        minVersion: 'TLSv1',
        ciphers: 'DEFAULT@SECLEVEL=0',
      }),
      good: await tls(await ours.issue('inner.test')),
    },
  }
}

/** A route for each upstream; resolves to what a client was answered. */
async function request(edge: Edge, https: string, port: number, fields: object): Promise<Answer & { backend: string }> {
  const [route, backend] = [id('edghtsrt'), id('bkdst')]
  const match = `/${route}`
  await edge.put({
    [`backend.${backend}`]: { address: '127.0.0.1', port, tls: false, host: 'inner.test', ...fields },
    [`route.${route}`]: {
      account: id('ac'),
      edge: https,
      match_type: 'path_prefix',
      match,
      backend,
      policies: null,
      headers: null,
      timeouts: { connect_seconds: 1, response_seconds: 1 },
    },
  })
  return { ...(await get(edge, { path: match })), backend }
}

const reasons = {
  plain: {
    refused: [503, 'refused the connection'],
    silent: [504, 'no response in time'],
    closing: [502, 'closed the connection without a response'],
    closingAtOnce: [502, 'closed the connection without a response'],
    notHttp: [502, 'the response was not valid HTTP'],
    failingItself: [503, undefined],
    good: [200, undefined],
  },
  tls: {
    refused: [503, 'refused the connection'],
    wrongName: [503, "TLS: the certificate is not for the backend's host name"],
    expired: [503, 'TLS: the certificate has expired'],
    unknownCa: [503, 'TLS: the certificate was issued by an unknown CA, or its chain is incomplete'],
    selfSigned: [503, 'TLS: the certificate is self-signed'],
    plainHttp: [503, 'TLS: the answer was not TLS'],
    silent: [503, 'the connection or its TLS handshake timed out'],
    closingAtOnce: [503, 'TLS: closed the connection during the handshake'],
    needsCertificate: [503, 'TLS: rejected the handshake: handshake failure'],
    oldTls: [503, 'TLS: rejected the handshake: protocol version'],
    good: [200, undefined],
  },
} as const

onBothPaths(
  'a request that fails at its upstream leaves a reason, and its client learns none of it',
  async (t, start) => {
    const upstreams = await startFailingUpstreams(t)
    const edge = await start(t, { certificates, caFile: upstreams.caFile })
    const https = await putHttpsEdge(edge)
    const health = createHealth()
    const failures = createFailures(health, (upstream) => certificateFault(upstream, upstreams.caFile))
    t.after(failures.stop)
    for (const kind of ['plain', 'tls'] as const) {
      for (const [name, [status, reason]] of Object.entries(reasons[kind])) {
        const port = upstreams[kind][name as 'good']
        const answer = await request(edge, https, port, { tls: kind === 'tls' })
        assert.equal(answer.status, status, `${kind} ${name}`)
        if (status >= 500)
          assert.doesNotMatch(`${answer.head}${answer.body}`, /127\.0\.0\.1|inner\.test|certificate|TLS|OpenSSL/)
        if (reason === undefined) continue
        const failure = await poll(() => edge.failures.find(({ backend }) => backend === answer.backend))
        assert.deepEqual([failure?.address, failure?.port], ['127.0.0.1', port])
        if (failure) await failures.note(failure)
        const [seen] = health.take(Date.now())
        assert.deepEqual(
          [seen?.backend, seen?.status, seen?.reason],
          [answer.backend, 'failing', reason],
          `${kind} ${name}`,
        )
      }
    }
    assert.equal(
      edge.failures.length,
      Object.values(reasons)
        .flatMap(Object.values)
        .filter(([, reason]) => reason).length,
    )
  },
)

test('a TCP connection that could not be opened leaves a reason; one that was open may end in any way', async (t) => {
  const { caFile, plain, tls } = await startFailingUpstreams(t)
  const edge = await startEdge(t, { certificates, caFile })
  const [account, tcp] = [id('ac'), id('edgtcp')]
  const visit = async (port: number, fields: object) => {
    const backend = id('bkdst')
    await edge.put({
      [`backend.${backend}`]: { address: '127.0.0.1', port, tls: false, host: 'inner.test', ...fields },
      [`tcp.${tcp}`]: { account, hostports: [`127.0.0.1:${edge.tcpPort}`], policies: null, backend },
    })
    assert.equal(await firstBytes({ port: edge.tcpPort }), '')
    return backend
  }
  const closed = await visit(plain.closingAtOnce, {})
  const cases: [string, string][] = [
    [await visit(plain.refused, {}), 'refused the connection'],
    [await visit(tls.wrongName, { tls: true }), "TLS: the certificate is not for the backend's host name"],
    [await visit(tls.expired, { tls: true }), 'TLS: the certificate is not trusted'],
    [await visit(tls.plainHttp, { tls: true, send_proxy_protocol: true }), 'TLS: the answer was not TLS'],
  ]
  for (const [backend, reason] of cases) {
    const failure = await poll(() => edge.failures.find((each) => each.backend === backend))
    assert.deepEqual([failure?.reason, failure?.account], [reason, account])
  }
  assert.ok(!edge.failures.some(({ backend }) => backend === closed))
})

test("each backend reports a failure only once in a while, and one account's many do not crowd out another's", async (t) => {
  const [port = 0] = await freePorts(1)
  const edge = await startEdge(t, { certificates, more: { threads: 1 } })
  const https = await putHttpsEdge(edge)
  const [hostile, honest] = [id('ac'), id('ac')]
  const route = (account: string) => {
    const [key, backend] = [id('edghtsrt'), id('bkdst')]
    const record = {
      account,
      edge: https,
      match_type: 'path_prefix',
      match: `/${key}`,
      backend,
      policies: null,
      headers: null,
    }
    return {
      path: `/${key}`,
      backend,
      records: {
        [`backend.${backend}`]: { address: '127.0.0.1', port, tls: false, host: 'inner.test' },
        [`route.${key}`]: record,
      },
    }
  }
  const [many, ours] = [Array.from({ length: 200 }, () => route(hostile)), route(honest)]
  await edge.put(Object.assign({}, ...many.map(({ records }) => records), ours.records))
  const startedAt = Date.now()
  for (const { path } of many) assert.equal((await get(edge, { path })).status, 503)
  for (let times = 0; times < 20; times++) assert.equal((await get(edge, { path: ours.path })).status, 503)
  await poll(() => edge.failures.some(({ backend }) => backend === ours.backend))
  const windows = Math.ceil((Date.now() - startedAt) / 5_000) + 1
  const of = (account: string) => edge.failures.filter((each) => each.account === account).length
  assert.ok(of(honest) <= windows, `${of(honest)} reports of one backend in ${windows} windows`)
  assert.ok(of(hostile) <= 50 * windows, `${of(hostile)} reports of one account in ${windows} windows`)
})
