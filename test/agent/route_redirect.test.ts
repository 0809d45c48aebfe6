// The redirect module of a route, through a real HAProxy.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect as connectHttp2 } from 'node:http2'
import { test } from 'node:test'
import { ask } from '../../src/agent/haproxy/process/runtime.ts'
import { redirectFault, redirectStatuses } from '../../src/kernel/edge/redirect.ts'
import { poll } from '../harness/poll.ts'
import { exchange, get, putHttpsEdge, putRoute, startHttpUpstream } from './http_harness.ts'
import { type Edge, onBothPaths } from './proxy_harness.ts'

const certificates = ['app.example.com']
const to = (url: string, more: object = {}) => ({
  redirect: { to: url, status_code: 308, keep_path: true, keep_query: true, ...more } as const,
})
const locationOf = (head: string): string | undefined => /^location: (.*)$/im.exec(head)?.[1]?.trim()

async function overHttp2({ httpsPort }: Edge, path: string) {
  const options = { rejectUnauthorized: false, servername: 'app.example.com' }
  const session = connectHttp2(`https://127.0.0.1:${httpsPort}`, options)
  const [headers] = await once(session.request({ ':path': path, ':authority': 'app.example.com' }), 'response')
  session.destroy()
  return [headers[':status'], headers.location, headers['content-length']]
}

onBothPaths('a route redirects with its status, and keeps the path and query that it should', async (t, start) => {
  const edge = await start(t, { certificates })
  const upstream = await startHttpUpstream(t)
  const https = await putHttpsEdge(edge)
  const route = (match: string, more: object) => putRoute(edge, https, upstream, { match, ...more })
  await route('/all', to('https://new.example.com'))
  await route('/under', to('http://new.example.com:8080/archive/', { backend: null }))
  await route('/path', to('https://new.example.com', { keep_query: false }))
  await route('/query', to("https://new.example.com/a;b='c'", { keep_path: false }))
  await route('/fixed', to('https://[2001:db8::1]/?a=%20b&c=d', { keep_path: false, keep_query: false }))
  for (const status of redirectStatuses)
    await route(`/status/${status}`, to('https://new.example.com', { status_code: status }))
  const cases: [path: string, status: number, location: string | undefined][] = [
    ['/all', 308, 'https://new.example.com/all'],
    ['/all/a%20b;c/?q=1&r=%0d%0aX-Evil:%201', 308, 'https://new.example.com/all/a%20b;c/?q=1&r=%0d%0aX-Evil:%201'],
    ['/all?', 308, 'https://new.example.com/all'],
    ['/all//evil.example/%2e%2e/x', 308, undefined],
    ['/under/x?y', 308, 'http://new.example.com:8080/archive/under/x?y'],
    ['/path?q=1', 308, 'https://new.example.com/path'],
    ['/query/x?q=1', 308, "https://new.example.com/a;b='c'?q=1"],
    ['/fixed/x?q=1', 308, 'https://[2001:db8::1]/?a=%20b&c=d'],
    ...redirectStatuses.map((status): [string, number, string] => [
      `/status/${status}`,
      status,
      `https://new.example.com/status/${status}`,
    ]),
  ]
  for (const [path, status, location] of cases) {
    const { head, body, ...got } = await get(edge, { path })
    const found = locationOf(head)
    assert.deepEqual([got.status, body], [status, ''], path)
    if (location) assert.equal(found, location)
    assert.match(String(found), /^https?:\/\/(new\.example\.com(:8080)?|\[2001:db8::1\])\//)
    assert.match(head, /^x-request-id: /im)
    assert.doesNotMatch(head, /^x-evil/im)
    assert.deepEqual(await overHttp2(edge, path), [status, found, '0'])
  }
  for (const method of ['POST', 'HEAD', 'OPTIONS', 'FOO'])
    assert.equal((await get(edge, { path: '/all', method })).status, 308, method)
  assert.equal(upstream.heads.length, 0)
})

onBothPaths('no request makes a redirect lead to another host, or adds a header', async (t, start) => {
  const edge = await start(t, { certificates })
  const upstream = await startHttpUpstream(t)
  const https = await putHttpsEdge(edge)
  await putRoute(edge, https, upstream, { match: '/', ...to('https://new.example.com') })
  const targets = [
    '//evil.example',
    '/\\evil.example',
    '/@evil.example',
    '/.evil.example',
    '/%0d%0aX-Evil:1',
    '/?@evil.example',
    '/#@evil.example',
    'https://evil.example/',
    '*',
    '/a\tb',
    '/\x00',
    '/%00',
    '/\xff',
    '.evil.example/',
    ':80@evil.example/',
  ]
  for (const target of targets) {
    for (const method of ['GET', 'OPTIONS']) {
      const { status, head } = await exchange(edge, `${method} ${target} HTTP/1.1\r\nHost: app.example.com\r\n\r\n`)
      const location = locationOf(head)
      assert.ok(
        status === 308 ? new URL(location ?? '').host === 'new.example.com' : status >= 400 || status === 0,
        `${target} → ${status} ${location}`,
      )
      assert.doesNotMatch(head, /^x-evil/im)
    }
  }
  assert.equal(upstream.heads.length, 0)
})

onBothPaths('policies decide before a redirect, and all of its response headers apply', async (t, start) => {
  const edge = await start(t, { certificates })
  const upstream = await startHttpUpstream(t)
  const https = await putHttpsEdge(edge)
  const policies = [await edge.policy('allow 127.0.0.2')]
  const response_headers = { add: [['Cache-Control', 'no-store']] as [string, string][], remove: [] }
  await putRoute(edge, https, upstream, { policies, response_headers, ...to('https://new.example.com') })
  const refused = await get(edge)
  assert.deepEqual([refused.status, locationOf(refused.head)], [403, undefined])
  const passed = await get(edge, { from: '127.0.0.2' })
  assert.deepEqual([passed.status, locationOf(passed.head)], [308, 'https://new.example.com/'])
  assert.match(passed.head, /^cache-control: no-store$/im)
  assert.doesNotMatch(refused.head, /^cache-control/im)
  await poll(() => edge.lines.length >= 2)
  const outcomes = edge.lines.map(({ request }) => [request.outcome, request.status, request.reason])
  assert.deepEqual(outcomes.sort(), [
    ['allowed', 308, null],
    ['refused', 403, 'policy'],
  ])
})

onBothPaths('a redirect that is missing or cannot be read is an error, and nothing is forwarded', async (t, start) => {
  const edge = await start(t, { certificates })
  const upstream = await startHttpUpstream(t)
  const https = await putHttpsEdge(edge)
  const route = await putRoute(edge, https, upstream, to('https://new.example.com'))
  const map = `${edge.settings.folder}/maps/redirect.map`
  for (const value of ['x', '308', '308|pq', '308|pq|', '200|pq|https://a.example', '308|pq|//evil.example', '-']) {
    await ask(edge.settings.runtimeSocket, `set map ${map} ${route} ${value}`)
    assert.equal((await get(edge)).status, 500, value)
  }
  await ask(edge.settings.runtimeSocket, `del map ${map} ${route}`)
  assert.equal((await get(edge)).status, 500)
  await edge.restartAgent()
  assert.equal((await get(edge)).status, 308)
  await edge.put({ [`route.${route}`]: null })
  assert.equal((await get(edge)).status, 404)
  assert.equal(upstream.heads.length, 0)
})

test('what is no URL, or more than one thing to a browser, is no redirect', () => {
  const faultOf = (url: string, more = {}) =>
    redirectFault({ ...to(url, more).redirect } as Parameters<typeof redirectFault>[0])?.place
  for (const url of [
    '',
    '/path',
    '//evil.example',
    'javascript:alert(1)',
    'ftp://a.example',
    'https:///x',
    'https://a b',
    'https://user@a.example',
    'https://a.example@b.example',
    'https://a.example#x',
    'https://a.example/|',
    'https://a.example/\\',
    'https://a.example/\r\nX: 1',
    'https://a.example/%zz',
    'https://a.example:0/',
    'https://a.example:99999',
    'https://a.example\n',
    'https://a..example',
    `https://a.example/${'x'.repeat(2048)}`,
    'https://a.example/é',
    'https://a.example?q',
  ])
    assert.equal(faultOf(url), 'to', url)
  for (const url of ['https://a.example', 'http://a.example:8080/x/', 'https://127.0.0.1', 'https://[::1]:8443/a'])
    assert.equal(faultOf(url), undefined, url)
  assert.equal(faultOf('https://a.example/?q=1&r=2', { keep_path: false, keep_query: false }), undefined)
  assert.equal(faultOf('https://a.example', { status_code: 300 }), 'status_code')
})
