import assert from 'node:assert/strict'
import { connect } from 'node:http2'
import type { Verdict } from '../../src/agent/requests/hits.ts'
import { poll } from '../harness/poll.ts'
import { exchange, get, putHttpsEdge, putRoute, startHttpUpstream } from './http_harness.ts'
import { assertEvents, firstBytes, id, onBothPaths } from './proxy_harness.ts'

const certificates = ['app.example.com', '*.example.com', '*.b.example.com', '*.a.b.example.com']

onBothPaths(
  'hosts: exact before wildcard, the longest suffix, in any case and with a port; others get 404',
  async (t, start) => {
    const edge = await start(t, { certificates })
    const wanted = {
      exact: ['app.example.com:443'],
      wild: ['*.example.com:443'],
      deep: ['*.b.example.com:443'],
    }
    for (const [name, hostports] of Object.entries(wanted)) {
      await putRoute(edge, await putHttpsEdge(edge, hostports), await startHttpUpstream(t, name))
    }
    const answers: Record<string, string> = {}
    const hosts = [
      'app.example.com',
      'APP.Example.COM',
      'app.example.com:443',
      'x.example.com',
      'b.example.com',
      'a.b.example.com',
      'z.a.b.example.com',
    ]
    for (const host of hosts) answers[host] = (await get(edge, { host })).body
    assert.deepEqual(answers, {
      'app.example.com': 'exact',
      'APP.Example.COM': 'exact',
      'app.example.com:443': 'exact',
      'x.example.com': 'wild',
      'b.example.com': 'wild',
      'a.b.example.com': 'deep',
      'z.a.b.example.com': 'deep',
    })
    for (const host of [
      'example.com',
      'xexample.com',
      'example.org',
      'app.example.com.evil.org',
      '[::1]',
      '192.0.2.1:443',
    ]) {
      const { status, head, body } = await get(edge, { host, servername: 'app.example.com' })
      assert.equal(status, 404, host)
      assert.equal(JSON.parse(body).error_code, 'ERR_NO_ROUTE')
      assert.match(head, /content-type: application\/json/)
    }
    await putHttpsEdge(edge, ['bare.example.com:443'])
    assert.equal((await get(edge, { host: 'bare.example.com' })).status, 404, 'a host without routes is no wildcard')
  },
)

onBothPaths('paths: exact before prefix, the longest prefix, whole segments', async (t, start) => {
  const edge = await start(t, { certificates })
  const https = await putHttpsEdge(edge)
  const other = await putHttpsEdge(edge, ['other.example.com:443'])
  const routes: [name: string, match_type: 'exact_path' | 'path_prefix', match: string][] = [
    ['api', 'path_prefix', '/api'],
    ['v1', 'path_prefix', '/api/v1/'],
    ['exact', 'exact_path', '/api/v1/me'],
    ['exact root', 'exact_path', '/'],
    ['odd', 'path_prefix', '/a b|é"{#?%zz'],
  ]
  for (const [name, match_type, match] of routes) {
    await putRoute(edge, https, await startHttpUpstream(t, name), { match_type, match })
  }
  const rest = await startHttpUpstream(t, 'rest')
  await putRoute(edge, other, rest)
  const answers: Record<string, string | number> = {}
  const paths = [
    '/api',
    '/api/',
    '/api/x',
    '/apix',
    '/ap',
    '/api/v1',
    '/api/v1/x',
    '/api/v10',
    '/api/v1/me',
    '/api/v1/me/',
    '/api/v1/mex',
    '/',
    '/?x=/api',
    '/api?x',
    '/x',
    '/API',
  ]
  for (const path of paths) {
    const { status, body } = await get(edge, { path })
    answers[path] = status === 200 ? body : status
  }
  assert.deepEqual(answers, {
    '/api': 'api',
    '/api/': 'api',
    '/api/x': 'api',
    '/apix': 404,
    '/ap': 404,
    '/api/v1': 'v1',
    '/api/v1/x': 'v1',
    '/api/v10': 'api',
    '/api/v1/me': 'exact',
    '/api/v1/me/': 'v1',
    '/api/v1/mex': 'v1',
    '/': 'exact root',
    '/?x=/api': 'exact root',
    '/api?x': 'api',
    '/x': 404,
    '/API': 404,
  })
  const same = ['/%61pi', '/x/../api', '/./api', '//api', '/api/%2e%2e/api/x', '/x/%2E./api', '/api/v1/../z']
  for (const path of same) assert.equal((await get(edge, { path })).body, 'api', path)
  const odd = ['/a%20b%7C%C3%A9%22%7B%23%3F%25zz', '/a%20b|%c3%a9"{%23%3f%25zz/x']
  for (const path of odd) assert.equal((await get(edge, { path })).body, 'odd', path)
  assert.equal((await get(edge, { path: '/%zz', host: 'other.example.com' })).status, 400)
  await get(edge, { path: '/x/%2e%2e/%61pi%7Cx', host: 'other.example.com' })
  assert.match(rest.heads.at(-1) ?? '', /^GET \/api%7Cx HTTP/, 'the upstream gets the path that was looked up')
})

onBothPaths(
  'routes decide by their own policies and those of their account; refusals and failures are JSON',
  async (t, start) => {
    const edge = await start(t, { certificates })
    const upstream = await startHttpUpstream(t)
    const https = await putHttpsEdge(edge)
    const account = id('ac')
    const office = await edge.policy('allow 127.0.0.0/28', 'deny 127.0.0.9', 'allow ::1')
    await putRoute(edge, https, upstream, { match: '/open' })
    const shut = await putRoute(edge, https, upstream, { match: '/shut', policies: [office], account })
    await putRoute(edge, https, upstream, { match: '/none', backend: null })
    await putRoute(edge, https, upstream, { match: '/lost', backend: id('bkdst') })
    await putRoute(edge, https, upstream, { match: '/unknown', policies: [id('ipp')] })
    const status = async (path: string, from?: string, to?: string) => (await get(edge, { path, from, to })).status

    assert.equal(await status('/open', '127.0.0.99'), 200)
    assert.deepEqual([await status('/shut', '127.0.0.1'), await status('/shut', '127.0.0.9')], [200, 403])
    assert.deepEqual([await status('/shut', '127.0.0.16'), await status('/shut', '::1', '::1')], [403, 200])
    assert.deepEqual([await status('/none'), await status('/lost'), await status('/unknown')], [503, 503, 403])
    const refused = await get(edge, { path: '/shut/x', from: '127.0.0.9' })
    assert.deepEqual(JSON.parse(refused.body), {
      error_code: 'ERR_IP_REFUSED',
      status_code: 403,
      msg: 'Requests from this address are refused.',
      details: { request_id: /^x-request-id: (.*)$/im.exec(refused.head)?.[1]?.trim() },
    })
    assert.equal(upstream.heads.length, 3, 'what was refused never reached the upstream')
    const post = (path: string) =>
      get(edge, { path, from: '127.0.0.9', method: 'POST', headers: ['Content-Length: 0'] })
    assert.match((await post('/shut')).head, /^connection: close/im)
    assert.doesNotMatch((await post('/open')).head, /^connection: close/im)

    const [strict, trial] = [id('ipx'), id('ipx')]
    const denyAll = await edge.policy('deny 0.0.0.0/0')
    // HAProxy logs what it has refused a little later than it answers.
    await poll(() => edge.events.length === 5)
    edge.events.length = 0
    await edge.put({ [`restrictions.${account}`]: { sets: [{ id: trial, enforced: false, policies: [denyAll] }] } })
    assert.deepEqual([await status('/shut', '127.0.0.1'), await status('/open')], [200, 200])
    await edge.put({ [`restrictions.${account}`]: { sets: [{ id: strict, enforced: true, policies: [denyAll] }] } })
    assert.deepEqual([await status('/shut', '127.0.0.1'), await status('/open')], [403, 200])
    await assertEvents(edge, [
      { outcome: 'warned', restriction: trial, target: shut, source: '127.0.0.1' },
      { outcome: 'refused', restriction: strict, target: shut, source: '127.0.0.1' },
    ])
  },
)

onBothPaths("an account's restrictions also apply to routes without policies, and count once", async (t, start) => {
  const edge = await start(t, { certificates })
  const upstream = await startHttpUpstream(t)
  const https = await putHttpsEdge(edge)
  const account = id('ac')
  const [plain, rewritten] = [
    await putRoute(edge, https, upstream, { match: '/plain', account }),
    await putRoute(edge, https, upstream, { match: '/headers', account, headers: { add: [['x', '1']], remove: [] } }),
  ]
  const tcp = id('edgtcp')
  const hostports = [`127.0.0.1:${edge.tcpPort}`]
  await edge.put({ [`tcp.${tcp}`]: { account, hostports, backend: id('bkdst'), policies: null } })
  const denyAll = await edge.policy('deny 0.0.0.0/0')
  const [strict, trial] = [id('ipx'), id('ipx')]
  const sets = [
    { id: trial, enforced: false, policies: [denyAll] },
    { id: strict, enforced: true, policies: [denyAll] },
  ]
  await edge.put({ [`restrictions.${account}`]: { sets: sets.slice(0, 1) } })
  assert.deepEqual(
    [(await get(edge, { path: '/plain' })).status, (await get(edge, { path: '/headers' })).status],
    [200, 200],
  )
  await edge.put({ [`restrictions.${account}`]: { sets } })
  assert.deepEqual(
    [(await get(edge, { path: '/plain' })).status, (await get(edge, { path: '/headers' })).status],
    [403, 403],
  )
  assert.equal(await firstBytes({ port: edge.tcpPort }), '')
  assert.equal(upstream.heads.length, 2)
  const event = (outcome: Verdict['outcome'], target: string) => ({
    outcome,
    restriction: outcome === 'warned' ? trial : strict,
    target,
    source: '127.0.0.1',
  })
  await assertEvents(edge, [
    event('warned', plain),
    event('warned', rewritten),
    ...[plain, rewritten, tcp].flatMap((target) => [event('warned', target), event('refused', target)]),
  ])
})

onBothPaths('each request on a connection is decided separately', async (t, start) => {
  const edge = await start(t, { certificates })
  const upstream = await startHttpUpstream(t)
  const https = await putHttpsEdge(edge)
  await putRoute(edge, https, upstream, { match: '/open' })
  await putRoute(edge, https, upstream, { match: '/shut', policies: [await edge.policy('deny 127.0.0.1')] })
  const session = connect(`https://127.0.0.1:${edge.httpsPort}`, {
    rejectUnauthorized: false,
    servername: 'app.example.com',
  })
  t.after(() => session.destroy())
  const status = (path: string) =>
    new Promise<number>((resolve, reject) => {
      const request = session.request({ ':path': path, ':authority': 'app.example.com' })
      request.on('response', (headers) => resolve(Number(headers[':status'])))
      request.on('error', reject)
      request.resume()
      request.end()
    })
  const both = await Promise.all(['/open', '/shut', '/open', '/shut', '/nowhere'].map(status))
  assert.deepEqual(both, [200, 403, 200, 403, 404])
  assert.match(upstream.heads[0] ?? '', /^GET \/open HTTP\/1\.1\r\n/, 'HTTP/1.1 to the upstream')
})

onBothPaths('upstream connections are reused, but never for another upstream', async (t, start) => {
  const edge = await start(t, { certificates })
  const https = await putHttpsEdge(edge)
  const names = ['one', 'two', 'three']
  const upstreams = await Promise.all(names.map((name) => startHttpUpstream(t, name)))
  for (const [index, upstream] of upstreams.entries())
    await putRoute(edge, https, upstream, { match: `/${names[index]}` })
  const session = connect(`https://127.0.0.1:${edge.httpsPort}`, {
    rejectUnauthorized: false,
    servername: 'app.example.com',
  })
  t.after(() => session.destroy())
  const ask = async (name: string) => {
    const request = session.request({ ':path': `/${name}`, ':authority': 'app.example.com' })
    let body = ''
    for await (const text of request.setEncoding('utf8')) body += text
    return body
  }
  const asked = Array.from({ length: 300 }, (_, index) => names[(index % 7) % 3] as string)
  const inTurn: string[] = []
  for (const name of asked.slice(0, 100)) inTurn.push(await ask(name))
  assert.deepEqual([...inTurn, ...(await Promise.all(asked.slice(100).map(ask)))], asked)
  for (const [index, upstream] of upstreams.entries()) {
    assert.ok(upstream.heads.every((head) => head.startsWith(`GET /${names[index]} `)))
    assert.ok(upstream.accepts < upstream.heads.length, `${upstream.accepts} of ${upstream.heads.length}`)
  }
})

onBothPaths('a request that two servers could read differently is refused or made unambiguous', async (t, start) => {
  const edge = await start(t, { certificates })
  const upstream = await startHttpUpstream(t)
  await putRoute(edge, await putHttpsEdge(edge), upstream)
  const post = 'POST / HTTP/1.1\r\nHost: app.example.com\r\n'
  const refused = [
    'GET / HTTP/1.1\r\nHost: app.example.com\r\nHost: other.example.com\r\n\r\n',
    'GET http://other.example.com/ HTTP/1.1\r\nHost: app.example.com\r\n\r\n',
    `${post}Content-Length: 3, 4\r\n\r\nabcd`,
    `${post}Content-Length: +3\r\n\r\nabc`,
    `${post}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n`,
    `${post}Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n`,
    'GET / HTTP/1.1\r\nHost: app.example.com\r\nX: a\0b\r\n\r\n',
    'GET / HTTP/1.1\r\nHost: app.example.com\r\nX\nY: b\r\n\r\n',
    'GET /a b HTTP/1.1\r\nHost: app.example.com\r\n\r\n',
  ]
  for (const bytes of refused) assert.equal((await exchange(edge, bytes)).status, 400, JSON.stringify(bytes))
  // HAProxy closes the connection on this one without a word.
  const twoLengths = `${post}Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd`
  assert.equal((await exchange(edge, twoLengths)).status, 0)
  assert.equal(upstream.heads.length, 0)

  const smuggled = 'GET /smuggled HTTP/1.1\r\nHost: app.example.com\r\n\r\n'
  await exchange(
    edge,
    `${post}Content-Length: ${smuggled.length + 5}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${smuggled}`,
  )
  await poll(() => upstream.heads.length > 0)
  assert.doesNotMatch(upstream.received, /content-length/i, 'one framing only')
  assert.doesNotMatch(upstream.received, /\/smuggled/, 'what follows is no request')
  const absolute = 'GET https://app.example.com/x HTTP/1.1\r\nHost: app.example.com\r\n\r\n'
  assert.equal((await exchange(edge, absolute)).status, 200)
})
