// The rewrite module of a route, through a real HAProxy.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect as connectHttp2 } from 'node:http2'
import { type TestContext, test } from 'node:test'
import { ask } from '../../src/agent/haproxy/process/runtime.ts'
import { type Rewrite, rewriteFault } from '../../src/kernel/edge/rewrite.ts'
import { poll } from '../harness/poll.ts'
import {
  type Answer,
  exchange,
  get,
  type HttpUpstream,
  putHttpsEdge,
  putRoute,
  startHttpUpstream,
} from './http_harness.ts'
import { type Edge, id, onBothPaths } from './proxy_harness.ts'
import { extendedConnect, openHttp2, startEcho } from './websocket_harness.ts'

const certificates = ['app.example.com']
const rewrite = (fields: Partial<Rewrite>) => ({
  rewrite: { strip_prefix: null, add_prefix: null, host: null, ...fields },
})

/** Target, Host and X-Forwarded-Host as the upstream saw them, or the status and code of the edge's own answer. */
function seenBy(upstream: HttpUpstream) {
  return async (send: () => Promise<Pick<Answer, 'status' | 'body'>>): Promise<string[]> => {
    const before = upstream.heads.length
    const { status, body } = await send()
    if (upstream.heads.length === before)
      return [String(status), body.startsWith('{') ? JSON.parse(body).error_code : body]
    const header = (name: string) =>
      upstream.lastHeaders().flatMap((line) => (line[0].toLowerCase() === name ? line[1] : []))
    return [upstream.heads.at(-1)?.split(' ')[1] ?? '', header('host').join(), header('x-forwarded-host').join()]
  }
}

/** Several requests on one connection, whose later ones take a shorter way than its first. */
function openSession(t: TestContext, { httpsPort }: Edge) {
  const options = { rejectUnauthorized: false, servername: 'app.example.com' }
  const session = connectHttp2(`https://127.0.0.1:${httpsPort}`, options)
  t.after(() => session.destroy())
  return async (path: string): Promise<{ status: number; body: string }> => {
    const stream = session.request({ ':path': path, ':authority': 'app.example.com' })
    const [headers] = await once(stream, 'response')
    let body = ''
    for await (const text of stream.setEncoding('utf8')) body += text
    return { status: Number(headers[':status']), body }
  }
}

onBothPaths('an upstream gets another path and Host, and the query as it was', async (t, start) => {
  const edge = await start(t, { certificates })
  const upstream = await startHttpUpstream(t)
  const https = await putHttpsEdge(edge)
  const route = (match: string, more: object) => putRoute(edge, https, upstream, { match, ...more })
  const office = await edge.policy('allow 127.0.0.1')
  const headers = { add: [['X-A', 'a']] as [string, string][], remove: [] }
  await route('/api', rewrite({ strip_prefix: '/api' }))
  await route('/api/deep', rewrite({ strip_prefix: '/api/deep', add_prefix: '/v2/x' }))
  await route('/add', { ...rewrite({ add_prefix: '/v1' }), policies: [office], headers })
  await route('/host', { ...rewrite({ host: 'inner.example:8080' }), headers })
  await route('/other', rewrite({ strip_prefix: '/api' }))
  await route('/@team', rewrite({ strip_prefix: '/@team', add_prefix: "/$a/(b)&c'd" }))
  await route('/.well-known', rewrite({ strip_prefix: '/.well-known' }))
  await route('/both', {
    ...rewrite({ host: 'inner.example' }),
    headers: { add: [['Host', 'last.example']], remove: [] },
  })
  const cases: [path: string, target: string, host?: string][] = [
    ['/api', '/'],
    ['/api/', '/'],
    ['/api?a=/../b&c=%2e', '/?a=/../b&c=%2e'],
    ['/api/x/y/?q', '/x/y/?q'],
    ['/api/api/x', '/api/x'],
    ['/api/deep', '/v2/x/'],
    ['/api/deep/er?a?b', '/v2/x/er?a?b'],
    ['/api/deeper', '/deeper'],
    ['/add', '/v1/add'],
    ['/add/x//y/?', '/v1/add/x//y/?'],
    ['/host/x', '/host/x', 'inner.example:8080'],
    ['/other/api', '/other/api'],
    ['/@team/x', "/$a/(b)&c'd/x"],
    ['/%40team/a%20b', "/$a/(b)&c'd/a%20b"],
    ['/.well-known/x', '/x'],
    ['/both', '/both', 'last.example'],
    // As without the module: dot segments are resolved, and letters decoded.
    ['/x/../api/./y/%2e%2e/z', '/z'],
    ['/%61pi/%7Ex', '/~x'],
    ['//api/x', '/x'],
    ['/api//x', '/x'],
    ['/api///x//y', '/x//y'],
    ['/api/?//evil.example', '/?//evil.example'],
  ]
  const seen = seenBy(upstream)
  const overHttp2 = openSession(t, edge)
  for (const [path, target, host = 'app.example.com'] of cases) {
    const expected = [target, host, 'app.example.com']
    assert.deepEqual(await seen(() => get(edge, { path })), expected, path)
    for (const again of ['', ' again']) assert.deepEqual(await seen(() => overHttp2(path)), expected, `${path}${again}`)
    const absolute = `GET https://app.example.com${path} HTTP/1.1\r\nHost: app.example.com\r\n\r\n`
    const [seenTarget = '', ...hosts] = await seen(() => exchange(edge, absolute))
    assert.deepEqual([seenTarget.replace(/^https:\/\/[^/]+/, ''), ...hosts], expected, `absolute ${path}`)
  }
  assert.match(upstream.heads.at(-1) ?? '', /\r\nX-Request-Id: /i)
  assert.deepEqual((await get(edge, { path: '/add', from: '127.0.0.2' })).status, 403)
  // Lines about requests have what the client sent.
  const lines = await poll(
    () => edge.lines.filter(({ request }) => request.path === '/api/deep/er'),
    ({ length }) => length > 3,
  )
  assert.equal(lines[0]?.request.host, 'app.example.com')
})

onBothPaths(
  'no request reaches a host of its own choice, or what is not below the prefix that is added',
  async (t, start) => {
    const edge = await start(t, { certificates })
    const upstream = await startHttpUpstream(t)
    const https = await putHttpsEdge(edge)
    const allow = { encoded_slashes: 'allow' as const }
    const route = (match: string, more: object) => putRoute(edge, https, upstream, { match, ...allow, ...more })
    await route('/strip', rewrite({ strip_prefix: '/strip' }))
    await route('/in', rewrite({ strip_prefix: '/in', add_prefix: '/tenant/a' }))
    await route('/', rewrite({ add_prefix: '/root', host: 'inner.example' }))
    const seen = seenBy(upstream)
    const overHttp2 = openSession(t, edge)
    // Backslashes as they stand.
    const tails = String.raw`
    /.. /../../x /%2e%2e/x /.%2E/x /%2e /. /./..//x /x/../../.. /... /..x /%252e%252e/x /%252e%252e%252fx /%25252e%25252e/x
    /..;/x /..;a=b/x /;/../x /%2e%2e;/x /..%3b/x /..%3B/x /..%2fx /..%2Fx /..%5cx /..\x /%2e%2e%2fx /x/..%2f..%2f..%2fx
    /%2f..%2fx /%c0%ae%c0%ae/x /%c0%af..%c0%afx /.%00./x /.%09./x /%e0%80%ae%e0%80%ae/x /..%20/x /..%00/x /..%23/x
    //evil.example ///evil.example /\evil.example /%5cevil.example /%2fevil.example /%2f%2fevil.example /;/evil.example
    /;x//evil.example //;@evil.example \evil.example %2fevil.example ;/evil.example //@evil.example/x /%09/evil.example
    @evil.example :80/x .evil.example %00 /%0d%0aX-Evil:1 /%zz ?//evil.example ?/../x #/../x /a;b /a%2fb /a%5Cb // /;`
      .split(/\s+/)
      .concat('/.. /x')
    const decoded = (text: string) =>
      Buffer.from(
        text.replaceAll(/%([0-9a-f]{2})/gi, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16))),
        'latin1',
      ).toString('latin1')
    const twice = (path: string) => decoded(decoded(path))
    const isFine = (target: string, start: string) => {
      const path = target.split('?')[0] ?? ''
      const parsed = new URL(path, 'http://inner.example')
      // As a server reads it that decodes twice, cuts parameters, and takes backslashes for slashes.
      const worst = new URL(
        `${twice(path)
          .replaceAll('\\', '/')
          .replaceAll(/;[^/]*|[\0\t]/g, '')
          .replaceAll(/\/+/g, '/')}`,
        'http://inner.example',
      )
      const isBelow = (text: string) => text === start || text.startsWith(`${start}/`)
      return (
        parsed.host === 'inner.example' &&
        worst.host === 'inner.example' &&
        isBelow(parsed.pathname) &&
        isBelow(worst.pathname)
      )
    }
    for (const [match, start] of [
      ['/strip', ''],
      ['/in', '/tenant/a'],
      ['', '/root'],
    ] as const)
      for (const tail of tails) {
        const path = `${match}${tail}`
        const absolute = `GET https://app.example.com${path} HTTP/1.1\r\nHost: app.example.com\r\n\r\n`
        const ways = [
          () => get(edge, { path }),
          ...(match === '/in' ? [() => exchange(edge, absolute)] : []),
          ...(/[\\ #]|^(?!\/)/.test(path)
            ? []
            : [() => overHttp2(path), () => overHttp2(`/x/..${path}`), () => overHttp2(`/${path}`)]),
        ]
        for (const way of ways) {
          const [first = '', second] = await seen(way)
          const target = first.replace(/^https:\/\/(?:inner|app)\.example(?:\.com)?(?=\/)/, '')
          // What leaves a prefix in plain dots is found under another route.
          const isRefused = /^\d+$/.test(first) && (first === '0' || Number(first) >= 400)
          assert.ok(isRefused || isFine(target, start) || isFine(target, '/root'), `${path} → ${first} ${second}`)
        }
      }
    for (const line of ['OPTIONS *', 'GET *', 'GET https://app.example.com', 'GET app.example.com', 'GET x/y']) {
      const [first = ''] = await seen(() => exchange(edge, `${line} HTTP/1.1\r\nHost: app.example.com\r\n\r\n`))
      assert.match(first, /^(?:(https:\/\/inner\.example)?\/root\/.*|[45]\d\d|0)$/, line)
    }
    assert.doesNotMatch(upstream.received, /^x-evil/im)
  },
)

onBothPaths('a path whose prefix servers see differently is refused', async (t, start) => {
  const edge = await start(t, { certificates })
  const upstream = await startHttpUpstream(t)
  const https = await putHttpsEdge(edge)
  await putRoute(edge, https, upstream, { match: '/a/b', ...rewrite({ strip_prefix: '/a/b' }) })
  const seen = seenBy(upstream)
  for (const path of ['/a;x/b/y', '/a/b;x/y', '/a/b;x', '/a//b/y', '/a/%62;/y'])
    assert.deepEqual(await seen(() => get(edge, { path })), ['400', 'ERR_AMBIGUOUS_PATH'], path)
  for (const tail of ['/;x', '/c;x/y', '/c/b;'])
    assert.equal((await seen(() => get(edge, { path: `/a/b${tail}` })))[0], tail)
})

onBothPaths('policies are those of the path that the client sent', async (t, start) => {
  const edge = await start(t, { certificates })
  const upstream = await startHttpUpstream(t)
  const https = await putHttpsEdge(edge)
  const shut = await edge.policy('allow 192.0.2.1')
  await putRoute(edge, https, upstream, { match: '/admin', policies: [shut], ...rewrite({ strip_prefix: '/admin' }) })
  await putRoute(edge, https, upstream, {
    match: '/open',
    ...rewrite({ strip_prefix: '/open', add_prefix: '/public' }),
  })
  const seen = seenBy(upstream)
  for (const path of [
    '/admin',
    '/ADMIN/x',
    '/open/../admin',
    '/%61dmin/x',
    '/open/%252e%252e/admin',
    '/open;/../admin',
  ])
    assert.match((await seen(() => get(edge, { path })))[0] ?? '', /^40[034]$/, path)
  assert.deepEqual((await seen(() => get(edge, { path: '/open/admin' })))[0], '/public/admin')
  assert.equal(upstream.heads.length, 1)
})

onBothPaths('a WebSocket is opened at the path and host that the route names', async (t, start) => {
  const edge = await start(t, { certificates })
  const echo = await startEcho(t)
  const https = await putHttpsEdge(edge)
  const fields = { strip_prefix: '/live', add_prefix: '/v1', host: 'inner.example' }
  await putRoute(edge, https, echo, { match: '/live', ...rewrite(fields) })
  const headers = [
    ...['Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13'],
    'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
  ]
  assert.equal((await get(edge, { path: '/live/chat?room=1', headers })).status, 101)
  const session = await openHttp2(t, edge)
  assert.equal((await extendedConnect(session, '/live/chat?room=2')).status, 200)
  assert.deepEqual(echo.targets, ['/v1/chat?room=1', '/v1/chat?room=2'])
  assert.deepEqual(
    echo.handshakes.map(({ host }) => host),
    ['inner.example', 'inner.example'],
  )
})

onBothPaths('a rewrite that is missing or cannot be read is an error, and nothing is forwarded', async (t, start) => {
  const edge = await start(t, { certificates })
  const upstream = await startHttpUpstream(t)
  const https = await putHttpsEdge(edge)
  const record = rewrite({ strip_prefix: '/api', host: 'inner.example' })
  const route = await putRoute(edge, https, upstream, record)
  const map = `${edge.settings.folder}/maps/rewrite.map`
  for (const value of [
    'x',
    '-',
    '5|/api/',
    '5|/api/||inner.example',
    '5|||inner.example|.',
    '|.',
    'x|/api/||h|.',
    '9|/api/||h|.',
    '|/api/||h|.',
  ]) {
    await ask(edge.settings.runtimeSocket, `set map ${map} ${route} ${value}`)
    for (const path of ['/api/x', '/api/%20']) assert.equal((await get(edge, { path })).status, 500, `${value} ${path}`)
  }
  await ask(edge.settings.runtimeSocket, `del map ${map} ${route}`)
  assert.equal((await get(edge, { path: '/api/x' })).status, 500)
  assert.equal(upstream.heads.length, 0)
  const seen = seenBy(upstream)
  const send = openSession(t, edge)
  await edge.restartAgent()
  assert.deepEqual(await seen(() => send('/api/x')), ['/x', 'inner.example', 'app.example.com'])
  // A change, and what is switched off, hold from the next request on of a connection that is open.
  const change = (more: object) => edge.put({ [`route.${route}`]: { ...base, ...more } })
  const [account, backend] = [id('ac'), id('bkdst')]
  const base = { account, edge: https, match_type: 'path_prefix', match: '/', backend, policies: null, headers: null }
  await edge.put({
    [`backend.${backend}`]: { address: '127.0.0.1', port: upstream.port, tls: false, host: 'upstream.test' },
  })
  await change(rewrite({ add_prefix: '/v2' }))
  assert.deepEqual(await seen(() => send('/api/x')), ['/v2/api/x', 'app.example.com', 'app.example.com'])
  await change({})
  assert.deepEqual(await seen(() => send('/api/x')), ['/api/x', 'app.example.com', 'app.example.com'])
})

test('what is no plain path, or no host, is no rewrite', () => {
  const faultOf = (fields: Partial<Rewrite>) => rewriteFault(rewrite(fields).rewrite)?.place
  const wrong = [
    ...[
      '',
      '/',
      '//',
      'api',
      '/api/',
      '//api',
      '/a//b',
      '/..',
      '/a/../b',
      '/a/..',
      '/.',
      '/./a',
      '/a/.',
      '/a|b',
      '/a;b',
    ],
    ...[
      '/a?b',
      '/a#b',
      '/a b',
      '/a\\b',
      '/a%20',
      '/a%2fb',
      '/é',
      '/a\nb',
      '/a\r',
      '/a\n',
      '/\0',
      '/%[src]',
      '/"',
      `/${'x'.repeat(512)}`,
    ],
  ]
  for (const text of wrong) {
    assert.equal(faultOf({ strip_prefix: text }), 'strip_prefix', JSON.stringify(text))
    assert.equal(faultOf({ add_prefix: text }), 'add_prefix', JSON.stringify(text))
  }
  for (const text of ['/a', '/a/b', '/.well-known', '/...', '/..a', '/a.', '/~u/@x', `/${'x'.repeat(511)}`])
    assert.equal(faultOf({ strip_prefix: text, add_prefix: text }), undefined, text)
  for (const host of [
    '',
    'a b',
    'a/b',
    'a:0',
    'a:b',
    'a:99999',
    '-a',
    'user@a',
    'a\r\nX: 1',
    '[::1',
    'a..b',
    'é',
    '*.a',
    '%[src]',
    'a:1:1',
  ])
    assert.equal(faultOf({ host }), 'host', JSON.stringify(host))
  for (const host of ['inner', 'inner.example', 'inner.example:8080', '127.0.0.1', '[::1]', '[::1]:80'])
    assert.equal(faultOf({ host }), undefined, host)
  assert.equal(faultOf({}), 'strip_prefix')
})
