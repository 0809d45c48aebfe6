import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { startControlPlane } from '../harness/control_plane.ts'
import { poll } from '../harness/poll.ts'
import { newUser } from '../harness/principals.ts'
import { type HeaderLine, headersOf, json, type RawRequest, rawExchange } from '../harness/raw.ts'

const plane = await startControlPlane({ after })
const admin = await plane.newAccount()
const member = await newUser(plane, admin)

const absentKey = '/api_keys/ak_00000000000000000000000000'
const absentUser = '/users/usr_00000000000000000000000000'
const version: HeaderLine = ['Service-Version', '2']
const text: HeaderLine = ['Content-Type', 'text/plain']
const good = headersOf(admin.token)
const asMember = headersOf(member.token)

/**
 * Neighbors in the contract's order of checks: each request fails both, and the first must answer. Then a client that
 * fixes one error never meets an earlier check again, and callers learn no more than their key allows.
 */
const neighbors: [first: string, second: string, expected: [number, string], request: RawRequest][] = [
  ['the path', 'the version', [404, 'ERR_ROUTE_NOT_FOUND'], { method: 'GET', path: '/nothing', headers: [] }],
  ['the path', 'the method', [404, 'ERR_ROUTE_NOT_FOUND'], { method: 'PURGE', path: '/nothing', headers: good }],
  [
    'the path',
    'the version, with a trailing slash',
    [404, 'ERR_ROUTE_NOT_FOUND'],
    { method: 'GET', path: '/api_keys/', headers: [] },
  ],
  ['the method', 'the version', [405, 'ERR_METHOD_NOT_ALLOWED'], { method: 'PUT', path: '/api_keys', headers: [] }],
  ['the version', 'the token', [400, 'ERR_SERVICE_VERSION'], { method: 'GET', path: '/api_keys', headers: [] }],
  [
    'the token',
    'the content type',
    [401, 'ERR_UNAUTHENTICATED'],
    { method: 'POST', path: '/api_keys', headers: [version, text], body: '{}' },
  ],
  [
    'the token',
    'a malformed content type',
    [401, 'ERR_UNAUTHENTICATED'],
    { method: 'POST', path: '/api_keys', headers: [version, ['Content-Type', ';/,']], body: '{}' },
  ],
  [
    'the token',
    'the body of a GET',
    [401, 'ERR_UNAUTHENTICATED'],
    { method: 'GET', path: '/api_keys', headers: [version], body: '{}' },
  ],
  [
    'the token',
    'the size of the body',
    [401, 'ERR_UNAUTHENTICATED'],
    { method: 'POST', path: '/api_keys', headers: [version, json], body: 'x'.repeat(70_000) },
  ],
  [
    'the content type',
    'the size of the body',
    [415, 'ERR_CONTENT_TYPE'],
    { method: 'POST', path: '/api_keys', headers: [...good, text], body: 'x'.repeat(70_000) },
  ],
  [
    'the content type',
    'the JSON',
    [415, 'ERR_CONTENT_TYPE'],
    { method: 'POST', path: '/api_keys', headers: [...good, text], body: '{' },
  ],
  [
    'the size of the body',
    'the JSON',
    [413, 'ERR_BODY_TOO_LARGE'],
    { method: 'POST', path: '/api_keys', headers: [...good, json], body: '{'.repeat(70_000) },
  ],
  [
    'the JSON',
    'the fields',
    [400, 'ERR_INVALID_JSON'],
    { method: 'POST', path: '/api_keys', headers: [...good, json], body: '{"nothing":1,"nothing":2}' },
  ],
  [
    'the JSON',
    'the query',
    [400, 'ERR_INVALID_JSON'],
    { method: 'POST', path: '/api_keys?nothing=1', headers: [...good, json], body: '{' },
  ],
  [
    'the fields',
    'the permission',
    [400, 'ERR_INVALID_FIELD'],
    { method: 'POST', path: '/users', headers: [...asMember, json], body: '{"nothing":1}' },
  ],
  [
    'the query',
    'the permission',
    [400, 'ERR_INVALID_FIELD'],
    { method: 'GET', path: '/audit_events?nothing=1', headers: asMember },
  ],
  [
    'the permission',
    'the existence',
    [403, 'ERR_FORBIDDEN'],
    { method: 'DELETE', path: absentUser, headers: asMember },
  ],
  [
    'the permission',
    'the existence of an owner',
    [403, 'ERR_FORBIDDEN'],
    {
      method: 'POST',
      path: '/api_keys',
      headers: [...asMember, json],
      body: '{"owner_id":"usr_00000000000000000000000000"}',
    },
  ],
  [
    'the fields',
    'the existence',
    [400, 'ERR_INVALID_FIELD'],
    { method: 'PATCH', path: absentKey, headers: [...good, json], body: '{"nothing":1}' },
  ],
  [
    'the existence',
    'the state',
    [404, 'ERR_NOT_FOUND'],
    { method: 'PATCH', path: absentUser, headers: [...good, json], body: '{"email":"ada@example.com"}' },
  ],
]

for (const [first, second, expected, request] of neighbors) {
  test(`§4 order of checks: ${first} before ${second}`, async () => {
    const { status, body } = await rawExchange(plane, request)
    assert.deepEqual([status, body.error_code], expected)
  })
}

test('§4 a path that has no operation gets 404, with any method', async () => {
  const paths = [
    '/',
    '/api_key',
    '/API_KEYS',
    '/api_keys/',
    '/v2/api_keys',
    '//api_keys',
    '/api_keys//',
    `${absentKey}/`,
  ]
  for (const path of paths) {
    for (const method of ['GET', 'POST', 'DELETE', 'PROPFIND']) {
      const { status, body } = await rawExchange(plane, { method, path, headers: good })
      assert.deepEqual([status, body.error_code], [404, 'ERR_ROUTE_NOT_FOUND'], `${method} ${path}`)
    }
  }
})

test('§4 a path that has operations gets 405 with other methods, and Allow says which it has', async () => {
  for (const [path, allowed] of [
    ['/api_keys', 'GET, HEAD, POST'],
    ['/api%5Fkeys?limit=1', 'GET, HEAD, POST'],
    [absentKey, 'DELETE, GET, HEAD, PATCH'],
    ['/caller', 'GET, HEAD'],
    ['/ip_checks', 'POST'],
  ] as const) {
    const others = ['PUT', 'OPTIONS', 'HEAD', 'TRACE', 'PROPFIND', 'POST', 'PATCH', 'DELETE', 'GET']
    for (const method of others.filter((other) => !allowed.split(', ').includes(other))) {
      const { status, headers } = await fetchOrRaw(method, path)
      assert.equal(status, 405, `${method} ${path}`)
      assert.equal(headers.get('allow')?.split(', ').sort().join(', '), allowed)
      assert.match(headers.get('operation-id') ?? '', /^op_/)
    }
  }
})

/** The answer to HEAD has the length of a body that does not come, which only a real client understands. */
async function fetchOrRaw(method: string, path: string): Promise<{ status: number; headers: Pick<Headers, 'get'> }> {
  if (method !== 'HEAD') return rawExchange(plane, { method, path, headers: good })
  return fetch(`${plane.processes[0]?.origin}${path}`, { method, headers: Object.fromEntries(good) })
}

test('§4 every response carries an Operation-Id of its own, and the log has the request under it', async () => {
  const answers = [
    await admin('GET', '/api_keys'),
    await admin('POST', '/api_keys', {}),
    await admin('POST', '/api_keys', { nothing: 1 }),
    await admin('GET', absentKey),
    await admin('GET', '/nothing'),
    await admin('GET', '/api_keys', undefined, { headers: { authorization: undefined } }),
  ]
  const ids = answers.map(({ headers }) => headers.get('operation-id') ?? '')
  assert.equal(new Set(ids).size, answers.length)
  // The log comes through a pipe, a moment after the answer.
  const logged = () => ids.filter((id) => plane.processes[0]?.log.some(({ operation_id }) => operation_id === id))
  await poll(logged, ({ length }) => length === ids.length)
})

test('§7 every error has error_code, status_code, msg and details, and all values in details are strings', async () => {
  const requests = neighbors.map(([, , , request]) => request)
  for (const request of requests) {
    const { status, headers, body } = await rawExchange(plane, request)
    assert.deepEqual(Object.keys(body).slice(0, 4), ['error_code', 'status_code', 'msg', 'details'])
    assert.match(body.error_code, /^ERR_[A-Z_]+$/)
    assert.equal(body.status_code, status)
    assert.match(body.msg, /^[^\n]+\.$/)
    assert.equal(body.details.operation_id, headers.get('operation-id'))
    for (const value of Object.values(body.details)) assert.equal(typeof value, 'string')
    assert.match(headers.get('content-type') ?? '', /^application\/json/)
  }
})

test('§7 a request that HTTP itself cannot read gets an error of the same form', async () => {
  for (const request of [
    { method: 'NONSENSE', path: '/api_keys', headers: good },
    { method: 'GET', path: '/api_keys', headers: [...good, ['no spaces', 'here']] },
    { method: 'GET', path: '/api_keys/%zz', headers: good },
    { method: 'POST', path: '/api_keys', headers: [...good, json, ['Transfer-Encoding', 'gzip']], body: '{}' },
    {
      method: 'POST',
      path: '/api_keys',
      headers: [...good, json, ['Transfer-Encoding', 'chunked'], ['Content-Length', '2']],
      body: '{}',
    },
  ] as RawRequest[]) {
    const { status, headers, body } = await rawExchange(plane, request)
    assert.equal(status, 400)
    assert.equal(body.error_code, 'ERR_MALFORMED_REQUEST')
    assert.equal(body.status_code, 400)
    assert.match(body.details.operation_id, /^op_/)
    assert.equal(body.details.operation_id, headers.get('operation-id'))
  }
})

test('§7 headers beyond what the service reads get 431, in the same form', async () => {
  const request: RawRequest = { method: 'GET', path: '/api_keys', headers: [...good, ['X-Large', 'x'.repeat(20_000)]] }
  const { status, headers, body } = await rawExchange(plane, request)
  assert.equal(status, 431)
  assert.equal(body.error_code, 'ERR_HEADERS_TOO_LARGE')
  assert.equal(body.details.operation_id, headers.get('operation-id'))
})
