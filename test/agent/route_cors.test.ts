// The cors module of a route, through a real HAProxy and in a real browser.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { connect as connectHttp2 } from 'node:http2'
import { type TestContext, test } from 'node:test'
import { ask } from '../../src/agent/haproxy/process/runtime.ts'
import { mapFile } from '../../src/agent/haproxy/settings.ts'
import type { Cors } from '../../src/kernel/edge/cors.ts'
import { openBrowser, openPage } from '../dashboard/browser.ts'
import { poll } from '../harness/poll.ts'
import { get, putHttpsEdge, putRoute, type RouteOptions, startHttpUpstream } from './http_harness.ts'
import { type Edge, onBothPaths, startEdge } from './proxy_harness.ts'

const certificates = ['app.example.com']
const page = 'https://page.example.com'
const cors = (fields: Partial<Cors> = {}) => ({
  cors: {
    ...{ allowed_origins: [page, 'https://*.example.net:8443', 'http://localhost:5173'], allowed_methods: ['PUT'] },
    ...{ allowed_headers: ['X-Trace', "X-|%src'"], exposed_headers: ['X-Total'] },
    ...{ max_age_seconds: 60, allow_credentials: true },
    ...fields,
  },
})
const preflight = (path: string, origin = page, more: string[] = []) => ({
  method: 'OPTIONS',
  path,
  headers: [`Origin: ${origin}`, 'Access-Control-Request-Method: PUT', ...more],
})

/** All that concerns pages of other origins, sorted. */
const corsHeaders = (head: string): string[] =>
  head
    .split('\r\n')
    .filter((line) => /^(access-control-|vary:)/i.test(line))
    .map((line) => line.replace(/^[^:]+/, (name) => name.toLowerCase()))
    .sort()
const granted = (origin: string) => [
  'access-control-allow-credentials: true',
  `access-control-allow-origin: ${origin}`,
  'access-control-expose-headers: X-Total',
]
const answered = (origin: string) => [
  'access-control-allow-credentials: true',
  "access-control-allow-headers: X-Trace, X-|%src'",
  'access-control-allow-methods: PUT',
  `access-control-allow-origin: ${origin}`,
  'access-control-max-age: 60',
  'vary: Origin',
]

/** It says that all may read it, as careless upstreams do. */
async function startOpenUpstream(t: TestContext, vary: string) {
  const upstream = { port: 0, methods: [] as string[] }
  const server = createServer((request, response) => {
    upstream.methods.push(request.method ?? '')
    response
      .writeHead(200, {
        ...{
          'Access-Control-Allow-Origin': request.headers.origin ?? '*',
          'access-control-allow-private-network': 'true',
        },
        ...{ 'Content-Length': 2, Vary: vary, 'X-Total': '7' },
      })
      .end('ok')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  upstream.port = (server.address() as { port: number }).port
  return upstream
}

onBothPaths('the edge answers preflights, and says on every response which origin may read it', async (t, start) => {
  const edge = await start(t, { certificates })
  const upstream = await startOpenUpstream(t, 'Accept')
  const https = await putHttpsEdge(edge)
  const route = (match: string, more: RouteOptions) => putRoute(edge, https, upstream, { match, ...more })
  await route('/cors', cors())
  await route('/any', cors({ allowed_origins: ['*'], allow_credentials: false, exposed_headers: [] }))
  await route('/plain', {})
  const headersFor = async (path: string, ...headers: string[]) => {
    const { status, head } = await get(edge, { path, headers })
    return [status, ...corsHeaders(head)]
  }
  const vary = ['vary: Accept', 'vary: Origin']
  for (const origin of [page, 'http://localhost:5173', 'https://a.example.net:8443'])
    assert.deepEqual(await headersFor('/cors', `Origin: ${origin}`), [200, ...granted(origin), ...vary], origin)
  for (const origin of [
    ...['https://page.example.org', 'http://page.example.com', `${page}:8443`, `${page}/`, 'https://PAGE.example.com'],
    ...[
      'https://example.net:8443',
      'https://a.b.example.net:8443',
      'https://a.example.net',
      'https://.example.net:8443',
    ],
    ...['https://*.example.net:8443', 'https://evil://a.example.net:8443', 'https://x@a.example.net:8443', 'null', ''],
    ...[`${page} ${page}`, `${page}, https://evil.example`, `https://evil.example#${page}`, '*', `x'%[src]|${page}`],
    ...['https://a%0d%0aX-Evil:1.example.net:8443', `https://${'a'.repeat(4_000)}`],
  ]) {
    assert.deepEqual(await headersFor('/cors', `Origin: ${origin}`), [200, ...vary], origin)
    const { status, head, body } = await get(edge, preflight('/cors', origin))
    assert.deepEqual(
      [status, JSON.parse(body).error_code, ...corsHeaders(head)],
      [403, 'ERR_CORS_REFUSED', 'vary: Origin'],
      origin,
    )
  }
  assert.deepEqual(await headersFor('/cors'), [200, ...vary])
  assert.deepEqual(await headersFor('/any'), [200, 'access-control-allow-origin: *', 'vary: Accept'])
  assert.deepEqual(await headersFor('/any', 'Origin: null'), [200, 'access-control-allow-origin: *', 'vary: Accept'])
  assert.equal((await headersFor('/plain', `Origin: ${page}`)).length, 4, 'of the upstream')

  upstream.methods.length = 0
  for (const origin of [page, 'https://a.example.net:8443']) {
    const { status, head, body } = await get(edge, preflight('/cors', origin))
    assert.deepEqual([status, body, ...corsHeaders(head)], [204, '', ...answered(origin)])
    assert.doesNotMatch(head, /^content-length/im)
    assert.match(head, /^x-request-id: /im)
  }
  assert.deepEqual(upstream.methods, [])
  // OPTIONS that ask for something else.
  const options = async (...headers: string[]) =>
    (await get(edge, { path: '/cors', method: 'OPTIONS', headers })).status
  assert.deepEqual([await options(`Origin: ${page}`), await options('Access-Control-Request-Method: PUT')], [200, 200])
  assert.equal((await get(edge, preflight('/plain'))).status, 200)
  assert.deepEqual(upstream.methods, ['OPTIONS', 'OPTIONS', 'OPTIONS'])
  const told = await poll(
    () => edge.lines.filter(({ request }) => request.status === 403).map(({ request }) => request),
    (lines) => lines.length > 10,
  )
  assert.deepEqual([...new Set(told.map(({ outcome, reason }) => `${outcome} ${reason}`))], ['refused cors'])
  assert.deepEqual(edge.events, [], 'no address was refused')
})

onBothPaths(
  'policies and the User-Agent decide before a preflight, and neither methods nor the rate count it',
  async (t, start) => {
    const edge = await start(t, { certificates })
    const upstream = await startHttpUpstream(t)
    const https = await putHttpsEdge(edge)
    const policies = [await edge.policy('allow 127.0.0.1')]
    const filter = { allow: [], deny: [], mode: 'enforce' as const }
    const limit = { rate_limit: { requests: 1, per_seconds: 3_600, key: 'source', mode: 'enforce' } } as const
    const route = (match: string, more: RouteOptions) => putRoute(edge, https, upstream, { match, ...cors(), ...more })
    await route('/policy', { policies })
    await route('/agent', { user_agent_filter: { ...filter, deny: ['bad'] } })
    await route('/methods', { methods: { ...filter, allow: ['PUT'] } })
    await route('/rate', limit)
    await route('/none', { backend: null })
    await route('/moved', {
      redirect: { to: 'https://new.example.com', status_code: 307, keep_path: true, keep_query: true },
    })
    await route('/own', {
      response_headers: { add: [['Access-Control-Allow-Origin', 'https://own.example']], remove: [] },
    })
    const refusals = [...granted(page), 'vary: Origin']
    const seen = async (more: object) => {
      const { status, head } = await get(edge, more)
      return [status, ...corsHeaders(head)]
    }
    assert.deepEqual(await seen(preflight('/policy')), [204, ...answered(page)])
    assert.deepEqual(await seen({ ...preflight('/policy'), from: '127.0.0.2' }), [403, ...refusals])
    assert.deepEqual(await seen(preflight('/agent', page, ['User-Agent: bad'])), [403, ...refusals])
    assert.deepEqual(await seen(preflight('/methods')), [204, ...answered(page)])
    const headers = [`Origin: ${page}`]
    assert.deepEqual(
      await seen({ path: '/methods', headers }),
      [405, ...refusals],
      'so that the page sees the real error',
    )
    for (let times = 0; times < 3; times++) assert.equal((await seen(preflight('/rate')))[0], 204)
    const statuses = [await seen({ path: '/rate', headers }), await seen({ path: '/rate', headers })]
    assert.deepEqual(statuses.at(-1), [429, ...refusals])
    assert.deepEqual(await seen({ path: '/none', headers }), [503, ...refusals])
    assert.deepEqual(await seen({ path: '/moved', headers }), [307, ...refusals])
    assert.deepEqual(await seen(preflight('/moved')), [204, ...answered(page)])
    const own = granted('https://own.example')
    assert.deepEqual(await seen({ path: '/own', headers }), [200, ...own, 'vary: Origin'], 'response_headers come last')
  },
)

test('cors holds for each request of an HTTP/2 connection, after changes, a restart of the agent and a lost entry', async (t) => {
  const edge = await startEdge(t, { certificates })
  const upstream = await startOpenUpstream(t, 'Origin')
  const https = await putHttpsEdge(edge)
  const route = await putRoute(edge, https, upstream, cors())
  const send = openSession(t, edge)
  const all = async () => [await send('GET'), await send('OPTIONS'), await send('GET', 'https://evil.example')]
  const expected = [`200 ${page} Origin`, `204 ${page} Origin`, '200 undefined Origin']
  assert.deepEqual(await all(), expected)
  await edge.restartAgent()
  assert.deepEqual(await all(), expected)
  const { runtimeSocket } = edge.settings
  await ask(runtimeSocket, `del map ${mapFile(edge.settings, 'cors_origin')} ${route}|${page}`)
  assert.equal(await send('GET'), '200 undefined Origin', 'an origin that is missing is not allowed')
  await ask(runtimeSocket, `set map ${mapFile(edge.settings, 'cors')} ${route} nothing-of-it`)
  assert.match(await send('GET'), /^500 undefined/)
  await ask(runtimeSocket, `del map ${mapFile(edge.settings, 'cors')} ${route}`)
  assert.match(await send('GET'), /^500 undefined/)
})

function openSession(t: TestContext, { httpsPort }: Edge) {
  const options = { rejectUnauthorized: false, servername: 'app.example.com' }
  const session = connectHttp2(`https://127.0.0.1:${httpsPort}`, options)
  t.after(() => session.destroy())
  return async (method: string, origin = page): Promise<string> => {
    const asks = method === 'OPTIONS' ? { 'access-control-request-method': 'PUT' } : {}
    const sent = { ':method': method, ':path': '/', ':authority': 'app.example.com', origin, ...asks }
    const stream = session.request(sent, { endStream: true })
    const [headers] = await once(stream, 'response')
    stream.resume()
    return `${headers[':status']} ${headers['access-control-allow-origin']} ${headers.vary}`
  }
}

test('Chromium: pages of allowed origins read responses and refusals, and no others do', async (t) => {
  const edge = await startEdge(t, { certificates: ['app.example.com', 'page.example.com', 'evil.example.com'] })
  const upstream = await startOpenUpstream(t, 'Origin')
  const https = await putHttpsEdge(edge)
  const fields = { methods: { allow: ['GET', 'PUT'], deny: [], mode: 'enforce' as const } }
  await putRoute(edge, https, upstream, { ...cors({ allowed_origins: [page] }), ...fields })
  await putRoute(edge, await putHttpsEdge(edge, ['page.example.com:443', 'evil.example.com:443']), upstream)
  const browser = await openBrowser(t, [
    `--host-resolver-rules=MAP *.example.com:443 127.0.0.1:${edge.httpsPort}`,
    '--ignore-certificate-errors',
  ])
  const tab = await openPage(browser)
  const fetched = (init: Pick<RequestInit, 'method' | 'credentials'> & { headers?: Record<string, string> }) =>
    tab.evaluate(
      (sent) =>
        fetch('https://app.example.com/', sent).then(
          async (answer) => `${answer.status} ${answer.headers.get('x-total')} ${(await answer.text()).slice(0, 2)}`,
          () => 'blocked',
        ),
      init,
    )
  await tab.goto(page)
  assert.equal(await fetched({ credentials: 'include' }), '200 7 ok')
  assert.equal(await fetched({ method: 'PUT', headers: { 'X-Trace': '1' }, credentials: 'include' }), '200 7 ok')
  assert.equal(await fetched({ method: 'POST' }), '405 null {"', 'a refusal of the edge can be read')
  assert.equal(await fetched({ method: 'DELETE' }), 'blocked')
  assert.equal(await fetched({ method: 'PUT', headers: { 'X-Other': '1' } }), 'blocked')
  await tab.goto('https://evil.example.com')
  assert.equal(await fetched({}), 'blocked')
  assert.equal(await fetched({ method: 'PUT' }), 'blocked')
})
