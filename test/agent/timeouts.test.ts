import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { connect as connectHttp2 } from 'node:http2'
import { type TestContext, test } from 'node:test'
import { pause } from '../harness/poll.ts'
import { get, putHttpsEdge, putRoute } from './http_harness.ts'
import { type Edge, startEdge } from './proxy_harness.ts'

/** What routes get that have no timeouts of their own. */
const defaultMs = 1_000
const longer = 2.5 * defaultMs

const start = (t: TestContext, isCarefulOnly = false) =>
  startEdge(t, { certificates: ['app.example.com'], isCarefulOnly, more: { responseTimeoutMs: defaultMs } })

async function upstreamOf(
  t: TestContext,
  answer: (request: IncomingMessage, response: ServerResponse) => Promise<void>,
): Promise<{ port: number; requests: string[] }> {
  const requests: string[] = []
  const server = createServer((request, response) => {
    requests.push(`${request.method} ${request.url}`)
    response.on('error', () => {})
    void answer(request, response).catch(() => {})
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  return { port: (server.address() as { port: number }).port, requests }
}

const silentFirst = (t: TestContext, ms: number) =>
  upstreamOf(t, async (_, response) => {
    await pause(ms)
    response.end('late')
  })

for (const isCarefulOnly of [false, true])
  test(`an upstream may be silent for as long as its route says, and no longer than the default elsewhere (careful: ${isCarefulOnly})`, async (t) => {
    const edge = await start(t, isCarefulOnly)
    const https = await putHttpsEdge(edge)
    const upstream = await silentFirst(t, longer)
    await putRoute(edge, https, upstream, { match: '/patient', timeouts: { response_seconds: 20 } })
    await putRoute(edge, https, upstream, { match: '/default' })
    await putRoute(edge, https, upstream, { match: '/other', timeouts: { connect_seconds: 3 } })
    const [patient, byDefault] = await Promise.all([get(edge, { path: '/patient' }), get(edge, { path: '/default' })])
    assert.deepEqual([patient.status, patient.body], [200, 'late'])
    assertTimeout(byDefault)
  })

test('a timeout returns 504 in JSON with an id, and no request is sent twice for it', async (t) => {
  const edge = await start(t)
  const https = await putHttpsEdge(edge)
  const upstream = await silentFirst(t, 10 * defaultMs)
  await putRoute(edge, https, upstream, { timeouts: { response_seconds: 1 } })
  for (const method of ['GET', 'POST', 'PATCH'])
    assertTimeout(await get(edge, { method, headers: ['Content-Length: 0'] }))
  assert.deepEqual(upstream.requests, ['GET /', 'POST /', 'PATCH /'])
})

test('server-sent events may pause for as long as their route says', async (t) => {
  const edge = await start(t)
  const https = await putHttpsEdge(edge)
  const upstream = await upstreamOf(t, async (_, response) => {
    response.writeHead(200, { 'Content-Type': 'text/event-stream' })
    response.write('data: first\n\n')
    await pause(longer)
    response.end('data: second\n\n')
  })
  await putRoute(edge, https, upstream, { match: '/patient', timeouts: { idle_seconds: 20 } })
  await putRoute(edge, https, upstream, { match: '/short', timeouts: { response_seconds: 20, idle_seconds: 1 } })
  const texts = await Promise.all(['/patient', '/short'].map((path) => streamed(edge, path)))
  assert.deepEqual(texts, ['data: first\n\ndata: second\n\n', 'data: first\n\n'])
})

test('a connection that is not accepted is given up when the route says so', async (t) => {
  const edge = await start(t)
  const https = await putHttpsEdge(edge)
  const upstream = await neverAccepting(t)
  await putRoute(edge, https, upstream, { match: '/hasty', timeouts: { connect_seconds: 1 } })
  await putRoute(edge, https, upstream, { match: '/default' })
  const hasty = { began: Date.now(), ended: 0 }
  const first = get(edge, { path: '/hasty' }).then((answer) => {
    hasty.ended = Date.now()
    return answer
  })
  const [answer, later] = await Promise.all([first, get(edge, { path: '/default' })])
  assert.equal(answer.status, 503)
  assert.equal(JSON.parse(answer.body).error_code, 'ERR_NO_BACKEND')
  assert.match(answer.head, /^x-request-id: [0-9a-f-]{36}$/im)
  assert.equal(later.status, 503)
  const waitedMs = hasty.ended - hasty.began
  assert.ok(waitedMs >= 900 && Date.now() - hasty.began - waitedMs > 2_000, `gave up after ${waitedMs} ms`)
})

function assertTimeout(answer: { status: number; head: string; body: string }): void {
  assert.equal(answer.status, 504, answer.body)
  assert.equal(JSON.parse(answer.body).error_code, 'ERR_GATEWAY_TIMEOUT')
  assert.match(answer.head, /^content-type: application\/json$/im)
  assert.match(answer.head, /^x-request-id: [0-9a-f-]{36}$/im)
}

async function streamed({ httpsPort }: Edge, path: string): Promise<string> {
  const session = connectHttp2(`https://127.0.0.1:${httpsPort}`, {
    servername: 'app.example.com',
    rejectUnauthorized: false,
  })
  const request = session.request({ ':path': path, ':authority': 'app.example.com' })
  let text = ''
  request.on('error', () => {})
  request.on('data', (bytes) => {
    text += bytes
  })
  await new Promise<void>((resolve) => request.on('close', resolve))
  session.destroy()
  return text
}

/** Its queue of connections is full, so that the kernel leaves further ones unanswered. */
async function neverAccepting(t: TestContext): Promise<{ port: number }> {
  const script =
    'import socket,sys,time\ns=socket.socket();s.bind(("127.0.0.1",0));s.listen(0)\nc=[socket.socket() for _ in range(3)]\n[x.setblocking(False) for x in c]\n[x.connect_ex(s.getsockname()) for x in c]\nprint(s.getsockname()[1],flush=True)\nsys.stdin.read()'
  const child = execFile('python3', ['-c', script])
  t.after(() => child.kill())
  const port = await new Promise<number>((resolve) => child.stdout?.once('data', (text) => resolve(Number(text))))
  return { port }
}
