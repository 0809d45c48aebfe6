import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect as connectHttp2 } from 'node:http2'
import { type TestContext, test } from 'node:test'
import { ask } from '../../src/agent/haproxy/process/runtime.ts'
import { poll } from '../harness/poll.ts'
import { exchange, get, putHttpsEdge, putRoute, startHttpUpstream } from './http_harness.ts'
import { onBothPaths, startEdge } from './proxy_harness.ts'

const certificates = ['app.example.com']
type Lines = [name: string, value: string][]
/** All spellings that a server could take for this name: any case, any character for the hyphens. */
const disguised = (lines: Lines, name: string) =>
  lines.filter(([each]) => each.toLowerCase().replaceAll(/[^a-z0-9]/g, '-') === name.toLowerCase())

onBothPaths('an added header replaces every copy from the client, in any case or spelling', async (t, start) => {
  const edge = await start(t, { certificates })
  const upstream = await startHttpUpstream(t)
  const https = await putHttpsEdge(edge)
  const add: Lines = [
    ['X-User-Id', 'from the edge; a="b", c=%41'],
    ['Authorization', 'Basic ~!@#$%^&*()_+|}{":?><,./;\'[]\\=-`'],
    ['empty', ''],
    ['__proto__', 'p'],
    ["!#$%&'*+.^`|~", 'token'],
    ['X-Escapes', '\\x0d\\x0aX-Evil: 1 \\1 \\\\ \\0 %0d%0aX-Evil: 2'],
  ]
  await putRoute(edge, https, upstream, { headers: { add, remove: ['X-Secret', 'x_internal'] } })
  const spellings = ['X-User-Id', 'x-user-id', 'X-USER-ID', 'x_user_id', 'X_User-Id', 'x-uSeR_iD', 'X.User.Id']
  const removed = ['X-Secret', 'x-secret', 'X_SECRET', 'X-Internal', 'x_internal', 'X-iNTERNAL']
  const others = ['X-User-Ids', 'X-User', 'XUserId', 'X-Secrets']
  const cases = [
    ...spellings,
    ...removed,
    ...others,
    'authorization',
    'AUTHORIZATION',
    '__PROTO__',
    '--proto--',
    'EMPTY',
  ]
  for (const name of cases) {
    await get(edge, { headers: [`${name}: forged`, `${name}: twice`] })
    const lines = upstream.lastHeaders()
    const expected = others.includes(name) ? ['forged', 'twice'] : []
    assert.deepEqual(
      lines.filter(([, value]) => value === 'forged' || value === 'twice').map(([, value]) => value),
      expected,
      name,
    )
    for (const [added, value] of add)
      assert.deepEqual(
        disguised(lines, added.toLowerCase().replaceAll(/[^a-z0-9]/g, '-')),
        [[added.toLowerCase(), value]],
        name,
      )
  }
  await get(edge, { headers: cases.map((name) => `${name}: forged`) })
  assert.equal(upstream.lastHeaders().filter(([, value]) => value === 'forged').length, others.length, 'all at once')
})

onBothPaths('client headers pass unchanged, even if they look like the rules that add headers', async (t, start) => {
  const edge = await start(t, { certificates })
  const upstream = await startHttpUpstream(t)
  const https = await putHttpsEdge(edge)
  await putRoute(edge, https, upstream, { headers: { add: [['X-Added', '1']], remove: ['X-Gone'] } })
  const values = [
    '\\x0d\\x0aX-Evil: 1',
    '%0d%0aX-Evil: 1',
    '%[src]',
    '\\1',
    'cut|',
    'add|',
    '\xe9\xff',
    '"',
    '  a  b\t',
  ]
  for (const gone of [[], ['X-Gone: 1', 'x_gone: 2']]) {
    for (const value of values) {
      assert.equal((await get(edge, { headers: [`X-Sent: ${value}`, ...gone] })).status, 200)
      const lines = upstream.lastHeaders().filter(([name]) => /sent|evil|gone|added/.test(name))
      assert.deepEqual(lines.sort(), [
        ['x-added', '1'],
        ['x-sent', value.trim()],
      ])
    }
  }
})

onBothPaths(
  'Connection removes the headers it names from the client, but none that the edge adds',
  async (t, start) => {
    const edge = await start(t, { certificates })
    const upstream = await startHttpUpstream(t)
    const https = await putHttpsEdge(edge)
    await putRoute(edge, https, upstream, { match: '/plain' })
    const add: Lines = [
      ['X-Added', '1'],
      ['X-Other', '2'],
    ]
    await putRoute(edge, https, upstream, { match: '/added', headers: { add, remove: [] } })
    const named =
      'X-Added, x-other,X-Mine , close, X-Forwarded-For,x-forwarded-proto, X-Forwarded-Host, Host, Content-Length, transfer-encoding'
    const hopByHop = [
      'Keep-Alive: timeout=5',
      'Proxy-Authorization: x',
      'Proxy-Connection: keep-alive',
      'proxy_x: 1',
      'TE: trailers',
      'Trailer: x',
      'Upgrade: websocket',
      'keep_alive: 1',
    ]
    for (const connection of [
      [`Connection: ${named}`],
      ['Connection: keep-alive', `CONNECTION: ${named}`],
      named.split(',').map((name) => `connection: ${name}`),
    ]) {
      for (const path of ['/plain', '/added']) {
        const body = ['Content-Length: 0']
        const { status } = await get(edge, {
          path,
          method: 'POST',
          headers: [...connection, 'X-Mine: 1', 'X-Kept: 1', 'X-Added: 0', ...hopByHop, ...body],
        })
        assert.equal(status, 200)
        const lines = upstream.lastHeaders()
        const names = lines.map(([name]) => name)
        for (const gone of ['x-mine', 'connection', 'keep-alive', 'te', 'trailer', 'upgrade', 'keep_alive', 'proxy_x'])
          assert.ok(!names.includes(gone), `${gone} ${connection}`)
        assert.ok(!names.some((name) => /^proxy/.test(name)))
        for (const there of [
          'host',
          'x-kept',
          'x-forwarded-for',
          'x-forwarded-proto',
          'x-forwarded-host',
          'content-length',
        ])
          assert.equal(names.filter((name) => name === there).length, 1, there)
        if (path === '/added')
          for (const [name, value] of add) assert.deepEqual(disguised(lines, name), [[name.toLowerCase(), value]])
      }
    }
  },
)

onBothPaths('clients cannot forge the headers that the edge sets about them', async (t, start) => {
  const edge = await start(t, { certificates })
  const upstream = await startHttpUpstream(t)
  const https = await putHttpsEdge(edge)
  await putRoute(edge, https, upstream, { match: '/plain' })
  await putRoute(edge, https, upstream, {
    match: '/added',
    headers: {
      add: [
        ['Host', 'inner.test'],
        ['X-A', '1'],
      ],
      remove: ['Accept', 'x.forwarded.proto'],
    },
  })
  const names = [
    'X-Forwarded-For',
    'X-Forwarded-Proto',
    'X-Forwarded-Host',
    'X-Forwarded-Port',
    'Forwarded',
    'X-Real-IP',
    'X-Client-IP',
    'X-Cluster-Client-IP',
    'True-Client-IP',
    'CF-Connecting-IP',
    'X-Original-URL',
    'X-Original-Host',
    'X-Rewrite-URL',
  ]
  const forged = names.flatMap((name) => [
    name,
    name.toLowerCase(),
    name.toUpperCase(),
    name.replaceAll('-', '_'),
    name.replace('-', '_'),
    name.replaceAll('-', '.'),
  ])
  const framing = ['Transfer_Encoding', 'content.length'].map((name) => `${name}: 6.6.6.6`)
  for (const path of ['/plain', '/added']) {
    await get(edge, {
      path,
      from: '127.0.0.77',
      headers: [...forged.map((name) => `${name}: 6.6.6.6`), ...framing, 'Accept: x'],
    })
    const lines = upstream.lastHeaders()
    assert.ok(!lines.some(([, value]) => value.includes('6.6.6.6')), JSON.stringify(lines))
    assert.deepEqual(disguised(lines, 'x-forwarded-for'), [['x-forwarded-for', '127.0.0.77']])
    assert.deepEqual(disguised(lines, 'x-forwarded-proto'), [['x-forwarded-proto', 'https']])
    assert.deepEqual(disguised(lines, 'x-forwarded-host'), [['x-forwarded-host', 'app.example.com']])
    assert.deepEqual(disguised(lines, 'host'), [['host', path === '/plain' ? 'app.example.com' : 'inner.test']])
    assert.equal(disguised(lines, 'accept').length, path === '/plain' ? 1 : 0)
    assert.equal(disguised(lines, 'x-a').length, path === '/plain' ? 0 : 1)
  }
  await get(edge, { path: '/plain', to: '::1', from: '::1' })
  assert.deepEqual(disguised(upstream.lastHeaders(), 'x-forwarded-for'), [['x-forwarded-for', '::1']])
})

onBothPaths('trailers of requests do not reach the upstream', async (t, start) => {
  const edge = await start(t, { certificates })
  const upstream = await startHttpUpstream(t)
  await putRoute(edge, await putHttpsEdge(edge), upstream, { headers: { add: [], remove: ['X-Secret'] } })
  const trailers = { 'x-forwarded-for': '6.6.6.6', 'x-secret': '6.6.6.6', 'x-anything': '6.6.6.6' }
  const lines = Object.entries(trailers).map(([name, value]) => `${name}: ${value}\r\n`)
  const head = 'POST / HTTP/1.1\r\nHost: app.example.com\r\nTransfer-Encoding: chunked\r\n\r\n'
  assert.equal((await exchange(edge, `${head}4\r\nbody\r\n0\r\n${lines.join('')}\r\n`)).status, 200)
  const session = connectHttp2(`https://127.0.0.1:${edge.httpsPort}`, {
    rejectUnauthorized: false,
    servername: 'app.example.com',
  })
  t.after(() => session.destroy())
  const stream = session.request(
    { ':method': 'POST', ':path': '/', ':authority': 'app.example.com' },
    { waitForTrailers: true },
  )
  stream.on('wantTrailers', () => stream.sendTrailers(trailers))
  stream.end('body')
  const [answer] = await once(stream, 'response')
  assert.equal(answer[':status'], 200)
  await poll(() => upstream.received.split('body').length === 3 && upstream.received.endsWith('\r\n\r\n'))
  assert.ok(!upstream.received.includes('6.6.6.6'), upstream.received)
})

async function startWithOperations(t: TestContext, isCarefulOnly: boolean) {
  const edge = await startEdge(t, { certificates, isCarefulOnly })
  const upstream = await startHttpUpstream(t)
  const https = await putHttpsEdge(edge)
  const route = await putRoute(edge, https, upstream, { headers: { add: [['X-Added', '1']], remove: ['X-Gone'] } })
  const tell = (command: string, map: string, value = '') =>
    ask(edge.settings.runtimeSocket, `${command} map ${edge.settings.folder}/maps/${map}.map ${route} ${value}`)
  assert.equal((await get(edge)).status, 200)
  return { edge, upstream, tell }
}

test('a request whose header operations are missing or unreadable reaches no upstream (careful path)', async (t) => {
  const { edge, upstream, tell } = await startWithOperations(t, true)
  for (const value of ['X-Added', 'X-Added=1', 'X-Added=%0d%0aX-Evil:1|', 'X-Added:%20=1|', '=1|', 'X=%e9|']) {
    await tell('set', 'headers', value)
    for (const headers of [[], ['X-Gone: 1']]) assert.equal((await get(edge, { headers })).status, 500, value)
  }
  await tell('del', 'headers')
  assert.equal((await get(edge)).status, 500)
  assert.equal(upstream.heads.length, 1)
})

test('a request whose header lists are unreadable is refused; without lists it takes the careful path', async (t) => {
  const { edge, upstream, tell } = await startWithOperations(t, false)
  const base64 = (bytes: string) => Buffer.from(bytes, 'latin1').toString('base64')
  const lists = (deleted: string, added: string) => `${String(7 + deleted.length).padStart(5, '0')}|${deleted}|${added}`
  const [deleted, added] = [base64('\x06x-gone\0'), base64('\x07x-added\x011\0\0')]
  assert.equal(edge.all().find(({ map }) => map === 'header_lists')?.value, lists(deleted, added))
  const unreadable = [lists('', ''), lists(base64('\x06x-gone'), added), lists(deleted, base64('\x07x-added\x011'))]
  for (const value of unreadable) {
    await tell('set', 'header_lists', value)
    const { status, body } = await get(edge, { headers: ['X-Gone: 1'] })
    assert.deepEqual([status, JSON.parse(body).error_code], [500, 'ERR_EDGE'], value)
  }
  assert.equal(upstream.heads.length, 1)
  for (const value of ['x', '|', lists('!!', added), lists(deleted, '!!'), `00000|${deleted}|${added}`]) {
    await tell('set', 'header_lists', value)
    assert.equal((await get(edge, { headers: ['X-Gone: 1'] })).status, 200, value)
    const lines = upstream.lastHeaders().filter(([name]) => /gone|added/.test(name))
    assert.deepEqual(lines, [['x-added', '1']], value)
  }
  await tell('del', 'header_lists')
  assert.equal((await get(edge)).status, 200)
  await tell('del', 'headers')
  assert.equal((await get(edge)).status, 500)
})

onBothPaths('the maximum of added headers arrives complete, and more are refused when set', async (t, start) => {
  const edge = await start(t, { certificates })
  const upstream = await startHttpUpstream(t)
  const https = await putHttpsEdge(edge)
  const many = (bytes: number): Lines =>
    Array.from({ length: 50 }, (_, index) => [`X-Many-${index}`, '%'.repeat(bytes)])
  await putRoute(edge, https, upstream, { headers: { add: many(75), remove: [] } })
  await get(edge, { headers: [`X-Long: ${'x'.repeat(8_000)}`] })
  assert.equal(
    upstream.lastHeaders().filter(([name, value]) => name.startsWith('x-many-') && value === '%'.repeat(75)).length,
    50,
  )
  await putRoute(edge, https, upstream, {
    match: '/long',
    headers: {
      add: [
        ['X-One', 'v'.repeat(4_096)],
        ['X-Two', '\\'.repeat(2_600)],
      ],
      remove: [],
    },
  })
  await get(edge, { path: '/long', headers: ['X-One: forged'] })
  assert.deepEqual(
    upstream
      .lastHeaders()
      .filter(([name]) => /^x-(one|two)$/.test(name))
      .map(([, value]) => value.length),
    [4_096, 2_600],
  )
  await assert.rejects(
    putRoute(edge, https, upstream, { match: '/more', headers: { add: many(300), remove: [] } }),
    /the limit is 12000/,
  )
})
