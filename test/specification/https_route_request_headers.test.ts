import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { nothingWasADefect } from '../harness/defects.ts'
import { assertRefused, newHttpsEdge, newRoute, newTcpEdge } from '../harness/fixtures.ts'
import { sharedControlPlane } from '../harness/shared_control_plane.ts'

const plane = await sharedControlPlane({ after })
const admin = await plane.newAccount()
const edge = await newHttpsEdge(admin)

const newModule = async (fields: object = {}) => `${(await newRoute(admin, fields, edge)).uri}/request_headers`
const shared = await newModule()
const put = (body: object, path = shared) => admin('PUT', path, body)
const refused = async (body: object, field: string) => assertRefused(await put(body), 400, 'ERR_INVALID_FIELD', field)

test('§1 the module is replaced, read and deleted', async () => {
  const path = await newModule()
  assertRefused(await admin('GET', path), 404, 'ERR_NOT_FOUND')
  const first = await put({ add: { 'X-One': '1' } }, path)
  assert.equal(first.status, 200, first.text)
  const replaced = await put({ enabled: false, add: { 'X-Two': '2' }, remove: ['Cookie'] }, path)
  assert.deepEqual(replaced.body, { enabled: false, add: { 'X-Two': '2' }, remove: ['Cookie'] })
  assert.deepEqual((await admin('GET', path)).body, replaced.body)
  assert.equal((await admin('DELETE', path)).status, 204)
  assertRefused(await admin('GET', path), 404, 'ERR_NOT_FOUND')
  assert.equal((await admin('DELETE', path)).status, 204)
})

test('§2 the identifiers carry their type prefixes: edghts_ for an HTTPS edge, edghtsrt_ for an HTTPS edge route', async () => {
  const route = await newRoute(admin)
  assert.match(route.edge_id, /^edghts_./)
  assert.match(route.id, /^edghtsrt_./)
})

test('§2.5 enabled: true and false come back as sent', async () => {
  for (const enabled of [true, false, true]) {
    assert.equal((await put({ enabled })).body.enabled, enabled)
    assert.equal((await admin('GET', shared)).body.enabled, enabled)
  }
})

test('§2.5 enabled: true if unspecified, even when the module that is replaced was disabled', async () => {
  await put({ enabled: false })
  assert.equal((await put({})).body.enabled, true)
})

test('§2.5 enabled: a boolean, and nothing that looks like one', async () => {
  for (const enabled of ['true', 'false', 1, 0, null, '', [], {}]) await refused({ enabled }, 'enabled')
})

test('§2.5 add: a map of header name to header value, returned exactly as sent, key order included', async () => {
  const sent =
    '{"X-Zebra":"1","a":"2","X-Apple":"a b;c=\\"d\\"","__proto__":"4","constructor":"5","toString":"","Host":"in.example"}'
  const { status, text } = await admin('PUT', shared, undefined, { rawBody: `{"add":${sent}}` })
  assert.equal(status, 200)
  assert.equal(text, `{"enabled":true,"add":${sent},"remove":[]}`)
  assert.equal((await admin('GET', shared)).text, text)
})

test('§2.5 add: empty when it is not sent', async () => {
  await put({ add: { 'X-A': '1' }, remove: ['X-B'] })
  assert.deepEqual((await put({ remove: ['X-B'] })).body.add, {})
})

test('§2.5 add: maps strings to strings, and nothing else', async () => {
  for (const add of [null, 'x', ['X-A'], 7, true]) await refused({ add }, 'add')
  for (const value of [null, 7, true, ['x'], {}]) await refused({ add: { 'X-A': '1', 'X-B': value } }, 'add.X-B')
})

test('§2.5 remove: a list of header names, returned exactly as sent, order and case included', async () => {
  const remove = ['x-zebra', 'Cookie', '__proto__', 'X_A', 'x-a', 'CONSTRUCTOR']
  assert.deepEqual((await put({ remove })).body.remove, remove)
  assert.deepEqual((await admin('GET', shared)).body.remove, remove)
})

test('§2.5 remove: empty when it is not sent', async () => {
  await put({ add: { 'X-A': '1' }, remove: ['X-B'] })
  assert.deepEqual((await put({ add: { 'X-A': '1' } })).body.remove, [])
})

test('§2.5 remove: lists strings, and nothing else', async () => {
  for (const remove of [null, 'Cookie', {}, 7]) await refused({ remove }, 'remove')
  for (const name of [null, 7, true, ['x'], {}]) await refused({ remove: ['Cookie', name] }, 'remove[1]')
})

test('§2.5 one header may be removed and added: the upstream then sees the added value only', async () => {
  const sent = { add: { Cookie: 'fixed' }, remove: ['cookie'] }
  assert.deepEqual((await put(sent)).body, { enabled: true, ...sent })
})

test('§2.5 names are RFC 9110 tokens of 1 to 256 bytes', async () => {
  for (const name of ["!#$%&'*+-.^_`|~09azAZ", 'x', 'n'.repeat(256)]) {
    assert.equal((await put({ add: { [name]: 'v' }, remove: [name] })).status, 200, name)
  }
  for (const name of ['a b', 'a:', 'a\r\nb', 'a\0', 'ä', 'a(b)', 'a/b', '"a"', ' a', 'a\x7f', '🚀', 'n'.repeat(257)]) {
    await refused({ add: { [name]: 'v' } }, `add.${name}`)
    await refused({ remove: ['Cookie', name] }, 'remove[1]')
  }
  await refused({ remove: [''] }, 'remove[0]')
  assert.match((await put({ add: { '': 'v' } })).body.details.field, /^add\./)
})

test('§2.5 values are printable ASCII without edge whitespace, at most 4096 bytes', async () => {
  const printable = Array.from({ length: 95 }, (_, index) => String.fromCharCode(32 + index))
    .join('')
    .trim()
  for (const value of ['', 'a b', printable, 'v'.repeat(4_096)]) {
    assert.equal((await put({ add: { 'X-A': value } })).body.add['X-A'], value)
  }
  for (const value of [
    ' v',
    'v ',
    ' ',
    '\tv',
    'a\tb',
    'a\r\nX-B: c',
    'a\n b',
    'a\0',
    'ä',
    'a\x7f',
    '🚀',
    'v'.repeat(4_097),
  ])
    await refused({ add: { 'X-A': value } }, 'add.X-A')
})

test('§2.5 at most 50 in each list', async () => {
  const names = (count: number) => Array.from({ length: count }, (_, index) => `X-${index}`)
  const map = (count: number) => Object.fromEntries(names(count).map((name) => [name, '1']))
  assert.equal((await put({ add: map(50), remove: names(50) })).status, 200)
  await refused({ add: map(51) }, 'add')
  await refused({ remove: names(51) }, 'remove')
})

test('§2.5 the largest module that is allowed can be sent, on its own path and with its route, and one byte more cannot', async () => {
  const names = Array.from({ length: 20 }, (_, index) => `X-${index}`.padEnd(99, 'n'))
  const values = (last: number) => names.map((_, index) => 'v'.repeat(index === 0 ? last : 299))
  // 20 names of 99 bytes twice and 19 values of 299, each with one more, leave this for the last.
  const largestOf = (last: number) => ({
    add: Object.fromEntries(names.map((name, index) => [name, values(last)[index] as string])),
    remove: names,
  })
  const largest = largestOf(12_000 - 2 * 20 * 100 - 19 * 300 - 1)
  const { status, body } = await put(largest)
  assert.deepEqual([status, body], [200, { enabled: true, ...largest }])
  const route = await newRoute(admin, { request_headers: largest }, edge)
  assert.deepEqual(route.request_headers, body)
  const patched = await admin('PATCH', route.uri, { request_headers: largest })
  assert.deepEqual([patched.status, patched.body?.request_headers], [200, body])
  await refused(largestOf(12_000 - 2 * 20 * 100 - 19 * 300), 'add')
  // What is encoded on its way to the proxy counts as three.
  await refused({ add: { 'X-A': 'a b'.padEnd(4_000, '"') } }, 'add')
})

test('§2.5 no name twice in a list, ignoring case; the second one is named', async () => {
  await refused({ add: { 'X-A': '1', 'X-B': '2', 'x-a': '1' } }, 'add.x-a')
  await refused({ remove: ['cookie', 'X-B', 'COOKIE'] }, 'remove[2]')
  await refused({ remove: ['cookie', 'cookie'] }, 'remove[1]')
})

test('§2.5 Host may be added, which rewrites it, and not removed', async () => {
  assert.equal((await put({ add: { HOST: 'in.example' } })).status, 200)
  for (const name of ['Host', 'host', 'HOST']) await refused({ remove: [name] }, 'remove[0]')
})

test('§2.5 the headers of the connection and those that the edge sets are in neither list, in any case and with _ for -', async () => {
  const forbidden = [
    ...['Connection', 'Content-Length', 'Expect', 'Keep-Alive', 'TE', 'Trailer', 'Transfer-Encoding', 'Upgrade'],
    ...['Proxy-Authorization', 'Proxy-Authenticate', 'Proxy-Connection', 'Proxy-Anything', 'Proxy-'],
    ...['X-Forwarded-For', 'X-Forwarded-Host', 'X-Forwarded-Proto'],
  ]
  for (const name of forbidden.flatMap((name) => [
    name,
    name.toLowerCase(),
    name.toUpperCase(),
    name.replaceAll('-', '_'),
  ])) {
    await refused({ add: { 'X-A': '1', [name]: 'v' } }, `add.${name}`)
    await refused({ remove: ['X-A', name] }, 'remove[1]')
  }
})

test('§2.5 a refused module changes nothing of the one that is set', async () => {
  const { body } = await put({ add: { 'X-Kept': '1' }, remove: ['X-Kept'] })
  await refused({ add: { 'X-New': '1', Connection: 'close' } }, 'add.Connection')
  assert.deepEqual((await admin('GET', shared)).body, body)
})

test('§4.4 {edge_id} is an HTTPS edge and {id} a route of that edge: anything else is the same 404', async () => {
  const stranger = await plane.newAccount()
  const [route, foreign, gone, sibling] = [
    await newRoute(admin, {}, edge),
    await newRoute(stranger),
    await newRoute(admin, {}, edge),
    await newRoute(admin),
  ]
  await admin('DELETE', gone.uri)
  const tcp = await newTcpEdge(admin)
  const pairs = [
    [sibling.edge_id, route.id],
    [edge.id, sibling.id],
    [foreign.edge_id, foreign.id],
    [foreign.edge_id, route.id],
    [edge.id, foreign.id],
    [edge.id, gone.id],
    [tcp.id, route.id],
    [route.id, edge.id],
    [edge.id, edge.id],
    ['x', route.id],
    [edge.id, 'x'],
    [edge.id.toUpperCase(), route.id],
  ]
  for (const [method, body] of [['PUT', { add: { 'X-A': '1' } }], ['GET'], ['DELETE']] as const) {
    for (const [edgeId, id] of pairs) {
      const answer = await admin(method, `/edges/https/${edgeId}/routes/${id}/request_headers`, body)
      assertRefused(answer, 404, 'ERR_NOT_FOUND')
      assert.equal(answer.body.msg, 'This account has no such HTTPS edge route.')
    }
  }
  assert.equal((await admin('GET', route.uri)).body.request_headers, null)
})

test('§4.4 Replace: 200 with the module (enabled, add, remove), and nothing else in it', async () => {
  const { status, body } = await put({ enabled: true, add: { 'X-A': '1' }, remove: ['X-B'] })
  assert.equal(status, 200)
  assert.deepEqual(body, { enabled: true, add: { 'X-A': '1' }, remove: ['X-B'] })
  assert.deepEqual(Object.keys(body), ['enabled', 'add', 'remove'])
})

test('§4.4 Replace: the whole module is replaced, with nothing left of the previous one', async () => {
  await put({ enabled: false, add: { 'X-A': '1' }, remove: ['X-B'] })
  assert.deepEqual((await put({})).body, { enabled: true, add: {}, remove: [] })
})

test('§4.4 Replace: a field that is not listed is refused and named', async () => {
  for (const field of ['id', 'uri', 'created_at', 'Add', 'set']) await refused({ [field]: {} }, field)
})

test('§4.4 Get: 200 with the module, as the route and its edge show it too', async () => {
  const route = await newRoute(admin, { request_headers: { enabled: false, remove: ['X-A'] } })
  const { status, body } = await admin('GET', `${route.uri}/request_headers`)
  assert.deepEqual([status, body], [200, { enabled: false, add: {}, remove: ['X-A'] }])
  assert.deepEqual(route.request_headers, body)
  assert.deepEqual((await admin('GET', `/edges/https/${route.edge_id}`)).body.routes[0].request_headers, body)
})

test('§4.4 Delete: 204 with no body, and the route stays', async () => {
  const route = await newRoute(admin, { request_headers: {} })
  const { status, text, headers } = await admin('DELETE', `${route.uri}/request_headers`)
  assert.deepEqual([status, text, headers.get('content-type')], [204, '', null])
  assert.deepEqual((await admin('GET', route.uri)).body, { ...route, request_headers: null })
})

nothingWasADefect(plane)
