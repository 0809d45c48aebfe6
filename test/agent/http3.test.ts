import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { createServer, request } from 'node:http'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { freePorts } from '../../dev/ports.ts'
import { ask as askHaproxy } from '../../src/agent/haproxy/process/runtime.ts'
import { parseCidr } from '../../src/kernel/ip/cidr.ts'
import { authority, type Issued, issue } from '../harness/client_pki.ts'
import { poll } from '../harness/poll.ts'
import { get, putHttpsEdge, putRoute, startHttpUpstream } from './http_harness.ts'
import { putMutual, startMutualEdge } from './mutual_harness.ts'
import { type Edge, id, startEdge } from './proxy_harness.ts'

/** HAProxy itself as the client: plain HTTP in, HTTP/3 out. It never tries again. As a client it never sees the end of an answer to HEAD that has a Content-Length. */
async function startClient(t: TestContext, { settings, httpsPort }: Edge, certificate?: Issued): Promise<string> {
  const [port = 0] = await freePorts(1)
  const file = join(settings.folder, `client-${port}.cfg`)
  const pem = join(settings.folder, `client-${port}.pem`)
  if (certificate) await writeFile(pem, certificate.pem + certificate.chain + certificate.key)
  await writeFile(
    file,
    `global
  expose-experimental-directives
defaults
  mode http
  timeout connect 5s
  timeout client 20s
  timeout server 20s
  retries 0
listen client
  bind 127.0.0.1:${port}
  server edge quic4@127.0.0.1:${httpsPort} ssl verify none alpn h3 sni str(app.example.com)${certificate ? ` crt ${pem}` : ''}
`,
  )
  const child = spawn('haproxy', ['-db', '-q', '-f', file], { stdio: 'ignore' })
  t.after(() => child.kill('SIGKILL'))
  const url = `http://127.0.0.1:${port}`
  await poll(() => fetch(url, { headers: { host: 'app.example.com' } }).then(Boolean, () => false))
  return url
}

async function startCounting(t: TestContext) {
  const requests: { method?: string; id?: string; from?: string; body: string }[] = []
  const server = createServer(async (received, response) => {
    let body = ''
    for await (const bytes of received) body += bytes
    const { 'x-request-id': requestId, 'x-forwarded-for': from } = received.headers
    requests.push({ method: received.method, id: String(requestId), from: String(from), body })
    if (received.url === '/hang-up') return received.socket.destroy()
    response.end(`upstream ${received.method}`)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  return { port: (server.address() as { port: number }).port, requests }
}

async function ask(
  url: string,
  path: string,
  {
    host = 'app.example.com',
    ...init
  }: Omit<RequestInit, 'headers'> & { host?: string; headers?: Record<string, string> } = {},
) {
  return new Promise<{ status?: number; id?: string; body: string; headers: Record<string, unknown> }>(
    (resolve, reject) => {
      const sent = request(
        `${url}${path}`,
        { method: init.method ?? 'GET', headers: { host, ...init.headers } },
        async (response) => {
          let body = ''
          for await (const bytes of response) body += bytes
          const id = String(response.headers['x-request-id'] ?? '')
          resolve({ status: response.statusCode, id, body, headers: response.headers })
        },
      )
      sent.on('error', reject)
      sent.end(init.body)
    },
  )
}

test('HTTP/3 gets the same routes, decisions and ids, and no POST is sent twice', async (t) => {
  const edge = await startEdge(t, { certificates: ['app.example.com'], more: { isHttp3On: true } })
  const https = await putHttpsEdge(edge)
  const upstream = await startCounting(t)
  await putRoute(edge, https, upstream, { match: '/' })
  await putRoute(edge, https, upstream, { match: '/refused', policies: [await edge.policy('deny 127.0.0.0/8')] })
  await putRoute(edge, https, upstream, { match: '/allowed', policies: [await edge.policy('allow 127.0.0.0/8')] })
  const response = id('bkdhr')
  const answer = 'Déjà vu: closed\n'.repeat(400)
  await edge.put({ [`response.${response}`]: { status: 418, headers: [['X-Reason', 'tea']], body: answer } })
  await putRoute(edge, https, upstream, { match: '/response', backend: response })
  const url = await startClient(t, edge)
  upstream.requests.length = 0

  const allowed = await ask(url, '/allowed')
  assert.deepEqual([allowed.status, allowed.body], [200, 'upstream GET'])
  assert.equal(upstream.requests[0]?.from, '127.0.0.1')
  assert.match(upstream.requests[0]?.id ?? '', /^[0-9a-f-]{36}$/)
  const refused = await ask(url, '/refused')
  assert.equal(refused.status, 403)
  assert.equal(JSON.parse(refused.body).error_code, 'ERR_IP_REFUSED')
  assert.match(refused.id ?? '', /^[0-9a-f-]{36}$/)
  await poll(() => edge.events.length === 1)
  assert.equal((await ask(url, '/', { host: 'other.example.com' })).status, 404)

  // A body that arrives whole. The edge refuses the rest of a longer one with STOP_SENDING when it has answered, as it may;
  // but this client then drops what it has not read yet of the answer.
  for (const sent of [{}, { method: 'POST', body: 'x'.repeat(500) }]) {
    const got = await ask(url, '/response', sent)
    assert.deepEqual([got.status, got.headers['x-reason'], got.body], [418, 'tea', answer])
    assert.match(got.id ?? '', /^[0-9a-f-]{36}$/)
  }

  const large = 'x'.repeat(300_000)
  assert.equal((await ask(url, '/upload', { method: 'POST', body: large })).body, 'upstream POST')
  assert.equal(upstream.requests.at(-1)?.body, large)
  const before = upstream.requests.length
  assert.equal((await ask(url, '/hang-up', { method: 'POST', body: 'once' })).status, 502)
  assert.equal(upstream.requests.length, before + 1)
})

test('HTTP/3 clients need a certificate where the edge asks for one, and can forge none', async (t) => {
  const edge = await startMutualEdge(t, { certificates: ['app.example.com'], more: { isHttp3On: true } })
  const [root, other] = [authority('/O=Tests/CN=Clients'), authority('/O=Tests/CN=Others')]
  const upstream = await startHttpUpstream(t)
  const place = { host: 'app.example.com', authorities: [root], port: upstream.port }
  const { https, account } = await putMutual(edge, place)
  const clientOf = (issuer: Issued, more: object = {}) => issue({ subject: '/CN=alice', issuer, ...more })
  const alice = clientOf(root)
  const bad = [undefined, clientOf(other), clientOf(root, { from: -20, to: -1 }), issue({ subject: '/CN=alice' })]
  const urls = await Promise.all([alice, ...bad].map((certificate) => startClient(t, edge, certificate)))
  upstream.heads.length = 0
  const statuses = () => Promise.all(urls.map(async (url) => (await ask(url, '/')).status))
  assert.deepEqual(await statuses(), [200, 502, 502, 502, 502], 'handshakes fail')
  assert.equal(upstream.heads.length, 1)

  const headers = { 'x-client-certificate-subject': 'CN=root', x_client_certificate_sha256: '00' }
  assert.equal((await ask(urls[0] ?? '', '/', { headers })).status, 200)
  const told = upstream.lastHeaders().filter(([name]) => /^x.client/i.test(name))
  assert.deepEqual(told.slice(0, 2), [
    ['x-client-certificate-verification', 'verified'],
    ['x-client-certificate-subject', 'CN=alice'],
  ])
  assert.equal(told.length, 3)

  // What is asked for now holds for connections, and sessions, from before.
  await putMutual(edge, { ...place, authorities: [other], https, account })
  assert.notEqual((await ask(urls[0] ?? '', '/')).status, 200)
  assert.equal((await ask(urls[2] ?? '', '/')).status, 200)
})

test('HTTP/3 is announced, and only when it is on', async (t) => {
  for (const isHttp3On of [true, false]) {
    const edge = await startEdge(t, { certificates: ['app.example.com'], more: { isHttp3On } })
    assert.equal(/^alt-svc: h3=":443"; ma=3600$/im.test((await get(edge)).head), isHttp3On)
  }
})

const workerOf = async ({ settings }: Edge) =>
  /^Pid: (\d+)$/m.exec(await askHaproxy(settings.runtimeSocket, 'show info'))?.[1]

test('clients cannot get around the PROXY protocol over UDP', async (t) => {
  const { cidr } = parseCidr('127.0.0.1')
  const more = { isHttp3On: true, proxyProtocolFrom: cidr ? [cidr] : [] }
  const edge = await startEdge(t, { certificates: ['app.example.com'], more })
  const upstream = await startCounting(t)
  await putRoute(edge, await putHttpsEdge(edge), upstream)
  const url = await startClient(t, edge)
  const before = await workerOf(edge)
  assert.equal((await ask(url, '/')).status, 502)
  assert.equal(upstream.requests.length, 0)
  // Refused, and not because it brought HAProxy down.
  assert.deepEqual([await workerOf(edge), edge.troubles], [before, []])
})
