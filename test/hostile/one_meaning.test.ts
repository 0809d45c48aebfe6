// One request, one meaning: the upstream gets exactly what the edge decided on. Rows 6, 12, 13 and 19 of the review.
import assert from 'node:assert/strict'
import { connect } from 'node:http2'
import { createServer, type Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import { exchange, get, putHttpsEdge, putRoute, startHttpUpstream } from '../agent/http_harness.ts'
import { type Edge, startEdge } from '../agent/proxy_harness.ts'
import { poll } from '../harness/poll.ts'
import { sized } from '../harness/thorough.ts'
import { attackingPaths, fits, ordinary, startAttack } from './readers/attack.ts'
import { startExpress, startLenient, startNode } from './readers/node.ts'

const certificates = ['*.example.com', '*.corp.example']
const refused = { from: '127.0.0.9' }

/** Only 127.0.0.1 may reach /admin; everybody may reach the rest. */
async function startRestricted(t: TestContext, rest: { encoded_slashes?: 'allow' } = {}) {
  const edge = await startEdge(t, { certificates })
  const https = await putHttpsEdge(edge)
  const upstream = await startHttpUpstream(t)
  const policies = [await edge.policy('allow 127.0.0.1')]
  await putRoute(edge, https, upstream, { match: '/', ...rest })
  await putRoute(edge, https, upstream, { match: '/admin', policies })
  return { edge, upstream, policies }
}

const statuses = async (edge: Edge, paths: string[], visit: { from?: string } = {}) =>
  Object.fromEntries(
    await Promise.all(paths.map(async (path) => [path, (await get(edge, { path, ...visit })).status] as const)),
  )
const all = (paths: string[], status: number) => Object.fromEntries(paths.map((path) => [path, status]))

const encoded = [
  '/%2fadmin/x',
  '/%2Fadmin',
  '/admin%2fx',
  '/admin%2Fx',
  '/x/..%2fadmin/x',
  '/x%2f..%2fadmin',
  '/x%2f../admin',
  '/%2e%2e%2fadmin',
  '/admin\\x',
  '/\\admin',
  '/x/..\\admin',
  '/admin%5cx',
  '/%5Cadmin',
  '/x/..%5cadmin',
  '/..;%2fadmin',
  '/admin;%2fx',
]

test('row 6: encoded slashes and backslashes get 400, and evade no policy', async (t) => {
  const { edge, upstream } = await startRestricted(t)
  assert.deepEqual(await statuses(edge, encoded, refused), all(encoded, 400))
  assert.deepEqual(await statuses(edge, encoded), all(encoded, 400))
  const elsewhere = ['/a%2fb', '/a\\b', '/a%5Cb']
  assert.deepEqual(await statuses(edge, elsewhere), all(elsewhere, 400))
  assert.equal(upstream.heads.length, 0)
  const { body, head } = await get(edge, { path: '/a%2fb' })
  assert.equal(JSON.parse(body).error_code, 'ERR_AMBIGUOUS_PATH')
  assert.match(head, /content-type: application\/json/)
  const twice = ['/a%252fb', '/a%255cb', '/100%25']
  assert.deepEqual(await statuses(edge, twice, refused), all(twice, 200), 'an encoded percent sign is one')
  assert.deepEqual(upstream.heads.map((text) => text.split(' ')[1]).sort(), twice.toSorted(), 'passed on unchanged')
  const query = '/?next=%2fadmin%5c\\;x'
  assert.equal((await get(edge, { path: query })).status, 200, 'the query is not the path')
})

test('row 6: a route that allows encoded slashes opens no way into another', async (t) => {
  const { edge, upstream, policies } = await startRestricted(t, { encoded_slashes: 'allow' })
  assert.deepEqual(await statuses(edge, encoded, refused), all(encoded, 400))
  assert.equal(upstream.heads.length, 0)

  const passed = ['/a%2fb', '/a%2Fb%5cc', '/a\\b', '/x/%2Fy', '/adminx%2fy']
  assert.deepEqual(await statuses(edge, passed, refused), all(passed, 200))
  assert.deepEqual(upstream.heads.map((text) => text.split(' ')[1]).sort(), passed.toSorted(), 'passed on unchanged')

  // The other way round: what belongs to /files only for servers that decode the slash.
  const [open, other] = [await startHttpUpstream(t), await startHttpUpstream(t)]
  const second = await putHttpsEdge(edge, ['b.example.com:443'])
  await putRoute(edge, second, open, { match: '/files', encoded_slashes: 'allow' })
  await putRoute(edge, second, other, { match: '/', policies })
  const ask = async (path: string) => (await get(edge, { path, host: 'b.example.com', ...refused })).status
  assert.deepEqual([await ask('/files/a%2fb'), await ask('/files%2fb'), await ask('/files')], [200, 400, 200])
  // Servers that decode one kind of separator and not the other, or cut parameters before they decode.
  const mixed = ['/files/a%2f..\\b', '/files/a%2f..', '/files/.%5cb', '/files/a;x%2fb', '/files/a%2fb;x']
  for (const path of mixed) assert.equal(await ask(path), 400, path)
  assert.equal(other.heads.length, 0)
})

test('row 6: path parameters are removed for matching, and both readings must be allowed', async (t) => {
  const { edge, upstream, policies } = await startRestricted(t)
  const parameters = ['/admin;x', '/admin;x/y', '/admin;', '/%61dmin;a=b/c', '/admin%3bx', '/x/../admin;x']
  assert.deepEqual(await statuses(edge, parameters, refused), all(parameters, 403))
  assert.deepEqual(await statuses(edge, parameters), all(parameters, 200))
  // A parent folder to a server that reads parameters, and a name to the others.
  const dots = ['/x/..;/admin', '/x/..;a=b/admin/y', '/x/%2e%2e;/admin', '/./.;/admin', '/x/.%2e%3b/admin']
  assert.deepEqual(await statuses(edge, dots, refused), all(dots, 403))
  assert.deepEqual(await statuses(edge, dots), all(dots, 400))
  assert.equal(await get(edge, { path: '/admin/..;/x', ...refused }).then(({ status }) => status), 403)
  assert.equal(await get(edge, { path: '/y/..;/x', ...refused }).then(({ status }) => status), 400)
  assert.ok(upstream.heads.every((text) => !text.includes('..')))

  const second = await putHttpsEdge(edge, ['d.example.com:443'])
  await putRoute(edge, second, upstream, { match: '/public' })
  await putRoute(edge, second, upstream, { match: '/', policies })
  const ask = async (path: string, from?: string) =>
    (await get(edge, { path, host: 'd.example.com', ...(from && { from }) })).status
  assert.deepEqual(
    [await ask('/public;x', '127.0.0.9'), await ask('/public/a;x', '127.0.0.9'), await ask('/public;x')],
    [403, 200, 200],
  )
  // A match with parameters goes before the cut path's route, and opens nothing that this one refuses.
  const third = await putHttpsEdge(edge, ['e.example.com:443'])
  await putRoute(edge, third, await startHttpUpstream(t, 'old'), { match: '/v;1' })
  await putRoute(edge, third, await startHttpUpstream(t, 'root'), { match: '/', policies })
  const body = async (path: string, from?: string) => {
    const answer = await get(edge, { path, host: 'e.example.com', ...(from && { from }) })
    return answer.status === 200 ? answer.body : answer.status
  }
  assert.deepEqual([await body('/v;1/x'), await body('/v;2'), await body('/v')], ['old', 'root', 'root'])
  assert.deepEqual([await body('/v;1/x', '127.0.0.9'), await body('/v', '127.0.0.9')], [403, 403])
})

test('no spelling of a restricted path reaches its handler from a refused address, on Node and Express', async (t) => {
  const readers = [await startNode(t), await startLenient(t), await startExpress(t, 4)]
  const { send } = await startAttack(t, readers)
  for (const reader of readers) {
    for (const [path, handler] of [
      ['/admin/keys', 'ADMIN'],
      ['/exact', 'EXACT'],
      ['/', 'open'],
    ] as const) {
      assert.deepEqual(await send(reader, path, { from: '127.0.0.1' }), { decided: '200', reached: handler })
      const answer = await send(reader, path, { from: refused.from })
      assert.equal(answer.decided, path === '/' ? '200' : '403', path)
    }
    for (const path of ordinary)
      assert.deepEqual(await send(reader, path, { from: refused.from }), { decided: '200', reached: 'open' }, path)
  }
  const reached: string[] = []
  const known = ['//x/admin/keys', '/.//x/admin', '/x/..//y/admin', '//x@y/admin', '/ADMIN', '/exact/', '/EXACT']
  const paths = [...known.map((path) => ({ layout: 'below' as const, path })), ...attackingPaths(sized(40, 400))]
  for (const { layout, path } of paths) {
    for (const reader of readers) {
      for (const version of ['HTTP/1.1', 'HTTP/2'] as const) {
        if (!fits(version, path)) continue
        const answer = await send(reader, path, { ...refused, layout, version })
        if (/ADMIN|EXACT/.test(answer.reached)) reached.push(`${reader.name} ${version} ${path}`)
      }
    }
  }
  assert.deepEqual(reached, [])
})

test('a path that could belong to two routes needs the consent of both, and a closer open route stays open', async (t) => {
  const edge = await startEdge(t, { certificates })
  const upstream = await startHttpUpstream(t)
  const policies = [await edge.policy('allow 127.0.0.1')]
  const https = await putHttpsEdge(edge)
  await putRoute(edge, https, upstream, { match: '/' })
  await putRoute(edge, https, upstream, { match: '/Admin', policies })
  await putRoute(edge, https, upstream, { match: '/admin/health', match_type: 'exact_path' })
  const login = await putRoute(edge, https, upstream, { match: '/login/', match_type: 'exact_path', policies })
  const open = ['/admin/health', '/Admin/../x', '/administration', '/logins', '/login/x', '/x/login']
  assert.deepEqual(await statuses(edge, open, refused), all(open, 200))
  const shut = [
    '/Admin',
    '/admin',
    '/aDMIN/x',
    '/admin/health/x',
    '/login/',
    '/login',
    '/LOGIN//',
    '/index.php/login/',
    '/login%00',
  ]
  assert.deepEqual(await statuses(edge, shut, refused), all(shut, 403))
  assert.deepEqual(await statuses(edge, shut), all(shut, 200))
  await poll(() => edge.events.some(({ target, source }) => target === login && source === refused.from))
  // More spellings than are worth a look are refused where a route is restricted, and nowhere else.
  const absurd = `/${'%252525%2500;//.php/%23%3f%c0%af'.repeat(3)}`
  assert.equal((await get(edge, { path: absurd, ...refused })).status, 400)
  const second = await putHttpsEdge(edge, ['b.example.com:443'])
  await putRoute(edge, second, upstream, { match: '/' })
  assert.equal((await get(edge, { path: absurd, host: 'b.example.com', ...refused })).status, 200)
})

test("a route's policies leave other spellings alone where the route says so", async (t) => {
  const readers = [await startNode(t)] as const
  const { send } = await startAttack(t, readers, { path_variants: 'ignore' })
  const decided = async (path: string) => (await send(readers[0], path, refused)).decided
  assert.deepEqual(
    [await decided('/admin'), await decided('/admin/x'), await decided('/exact'), await decided('/%61dmin;x')],
    ['403', '403', '403', '403'],
  )
  assert.deepEqual(
    [await decided('/ADMIN'), await decided('/exact/'), await decided('/admin%00'), await decided('/x/..%252fadmin')],
    ['200', '200', '200', '200'],
  )
  assert.equal(
    (await send(readers[0], '//x/admin', refused)).reached,
    'open',
    'the edge forwards what it has decided on',
  )
})

test('the upstream of a path with two slashes in front gets one, and keeps those further behind', async (t) => {
  const { edge, upstream } = await startRestricted(t)
  for (const path of ['//x/y?q=//z', '///x//y', '/.//x/y', 'https://app.example.com//x/y', '/img/https://host/x.png'])
    assert.equal((await get(edge, { path, ...refused })).status, 200, path)
  assert.deepEqual(
    upstream.heads.map((text) => text.split(' ')[1]?.replace('https://app.example.com', '')),
    ['/x/y?q=//z', '/x//y', '/x/y', '/x/y', '/img/https://host/x.png'],
  )
})

test('row 12: CONNECT and TRACE get 405 in HTTP/1 and HTTP/2, even if the upstream allows them', async (t) => {
  const edge = await startEdge(t, { certificates })
  const sockets = new Set<Socket>()
  let accepted = 0
  const willing = createServer((socket) => {
    accepted++
    sockets.add(socket)
    socket.on('error', () => {})
    socket.on('data', () => socket.write('HTTP/1.1 200 OK\r\n\r\n'))
  })
  await new Promise<void>((resolve) => willing.listen(0, '127.0.0.1', resolve))
  t.after(() => {
    for (const socket of sockets) socket.destroy()
    willing.close()
  })
  await putRoute(edge, await putHttpsEdge(edge), willing.address() as { port: number })
  for (const line of ['CONNECT app.example.com:443', 'CONNECT 127.0.0.1:22', 'TRACE /', 'TRACE /nowhere']) {
    const host = line.startsWith('CONNECT') ? line.split(' ')[1] : 'app.example.com'
    const { status, head, body } = await exchange(edge, `${line} HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
    assert.equal(status, 405, line)
    assert.equal(JSON.parse(body).error_code, 'ERR_METHOD_NOT_ALLOWED')
    assert.match(head, /^allow: GET, HEAD, POST/im)
  }
  const session = connect(`https://127.0.0.1:${edge.httpsPort}`, {
    rejectUnauthorized: false,
    servername: 'app.example.com',
  })
  t.after(() => session.destroy())
  for (const headers of [
    { ':method': 'CONNECT', ':authority': 'app.example.com:443' },
    { ':method': 'CONNECT', ':authority': '127.0.0.1:22' },
    { ':method': 'TRACE', ':authority': 'app.example.com', ':path': '/' },
  ]) {
    const status = await new Promise<number>((resolve) => {
      const request = session.request(headers)
      request.on('response', (answer) => resolve(Number(answer[':status'])))
      request.on('error', () => resolve(0))
      request.resume()
    })
    assert.equal(status, 405, JSON.stringify(headers))
  }
  assert.equal(accepted, 0)
})

test('row 13: Host is a name or an address and a port, or the request gets 400', async (t) => {
  const edge = await startEdge(t, { certificates })
  const upstream = await startHttpUpstream(t)
  await putRoute(edge, await putHttpsEdge(edge, ['*.corp.example:443']), upstream)
  await putRoute(edge, await putHttpsEdge(edge, ['h.corp.example:443']), await startHttpUpstream(t, 'h'))
  const servername = 'a.corp.example'
  const bad = [
    'evil.com/.corp.example',
    'evil.com?.corp.example',
    'evil.com#.corp.example',
    'evil.com\\.corp.example',
    'user@a.corp.example',
    'a b.corp.example',
    'evil.com:80.corp.example',
    'a.corp.example:80x',
    'a.corp.example:123456',
    'h.corp.example:x',
    '..corp.example',
    '.corp.example',
    'a.corp.example..',
    'a,b.corp.example',
    "a'b.corp.example",
    'a%2e.corp.example',
    '',
  ]
  for (const host of bad) {
    const { status, body } = await get(edge, { host, servername })
    assert.equal(status, 400, host)
    // HAProxy's own parser refuses some of them before any rule is asked.
    const code = JSON.parse(body).error_code
    if (code === 'ERR_BAD_REQUEST') assert.match(host, /[^a-z0-9.:-]/, host)
    else assert.equal(code, 'ERR_BAD_HOST', host)
  }
  for (const version of ['1.0', '1.1'])
    assert.equal((await exchange(edge, `GET / HTTP/${version}\r\n\r\n`, { servername })).status, 400)
  assert.equal(upstream.heads.length, 0)
  const host = async (text: string) => (await get(edge, { host: text })).body
  assert.deepEqual(
    [await host('h.corp.example.'), await host('h.corp.example.:443'), await host('H.Corp.Example:8443')],
    ['h', 'h', 'h'],
  )
  assert.equal(await host('a.corp.example.'), 'upstream')
})

test('row 19: a connection opened for one edge serves no other: 421', async (t) => {
  const edge = await startEdge(t, { certificates })
  const [one, two] = [await startHttpUpstream(t, 'one'), await startHttpUpstream(t, 'two')]
  await putRoute(edge, await putHttpsEdge(edge, ['a.example.com:443', 'b.example.com:443', '*.corp.example:443']), one)
  await putRoute(edge, await putHttpsEdge(edge, ['c.example.com:443', 'z.corp.example:443']), two)
  const ask = async (servername: string, host: string) => (await get(edge, { servername, host })).status
  const misdirected = await get(edge, { servername: 'a.example.com', host: 'c.example.com' })
  assert.equal(misdirected.status, 421)
  assert.equal(JSON.parse(misdirected.body).error_code, 'ERR_MISDIRECTED')
  assert.deepEqual(
    [
      await ask('c.example.com', 'a.example.com'),
      await ask('y.corp.example', 'z.corp.example'),
      await ask('z.corp.example', 'y.corp.example'),
      await ask('unknown.example.com', 'a.example.com'),
    ],
    [421, 421, 421, 421],
  )
  assert.equal(two.heads.length + one.heads.length, 0)
  // Names of one edge may share a connection, as browsers do.
  assert.deepEqual(
    [
      await ask('a.example.com', 'b.example.com'),
      await ask('A.example.com', 'a.example.com:443'),
      await ask('x.corp.example', 'b.example.com'),
      await ask('z.corp.example', 'c.example.com'),
    ],
    [200, 200, 200, 200],
  )
  const session = connect(`https://127.0.0.1:${edge.httpsPort}`, {
    rejectUnauthorized: false,
    servername: 'a.example.com',
  })
  t.after(() => session.destroy())
  const status = (host: string) =>
    new Promise<number>((resolve, reject) => {
      const request = session.request({ ':path': '/', ':authority': host })
      request.on('response', (headers) => resolve(Number(headers[':status'])))
      request.on('error', reject)
      request.resume()
    })
  const asked = ['a.example.com', 'c.example.com', 'b.example.com', 'z.corp.example', 'a.example.com']
  const answers: number[] = []
  for (const host of asked) answers.push(await status(host))
  assert.deepEqual(answers, [200, 421, 200, 421, 200], 'one wrong request spoils no other')
})

test('row 19: a recreated edge is reachable on a connection that stayed open', async (t) => {
  const edge = await startEdge(t, { certificates })
  const upstream = await startHttpUpstream(t)
  const first = await putHttpsEdge(edge)
  await putRoute(edge, first, upstream)
  const session = connect(`https://127.0.0.1:${edge.httpsPort}`, {
    rejectUnauthorized: false,
    servername: 'app.example.com',
  })
  t.after(() => session.destroy())
  const status = () =>
    new Promise<number>((resolve, reject) => {
      const request = session.request({ ':path': '/', ':authority': 'app.example.com' })
      request.on('response', (headers) => resolve(Number(headers[':status'])))
      request.on('error', reject)
      request.resume()
    })
  assert.equal(await status(), 200)
  await edge.put({ [`https.${first}`]: null })
  assert.equal(await status(), 404)
  await putRoute(edge, await putHttpsEdge(edge), upstream)
  assert.equal(await status(), 200)
})
