import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { nothingWasADefect } from '../harness/defects.ts'
import { headersOf, json, RawConnection, rawExchange } from '../harness/raw.ts'
import { sharedControlPlane } from '../harness/shared_control_plane.ts'

const plane = await sharedControlPlane({ after })
const admin = await plane.newAccount()
const good = headersOf(admin.token)
const policies = await Promise.all([1, 2].map(async () => (await admin('POST', '/ip_policies', {})).body.id as string))
const [one = '', other = ''] = policies

async function answerTo(text: string) {
  const connection = await RawConnection.open(plane)
  connection.write(text)
  const answer = await connection.answer()
  connection.close()
  return answer ?? assert.fail('no answer')
}
const lines = good.map(([name, value]) => `${name}: ${value}\r\n`).join('')

for (const [what, status, code, text] of [
  ['an expectation other than 100-continue', 417, 'ERR_EXPECTATION', `Host: a\r\nExpect: 200-ok\r\n${lines}`],
  ['no Host header', 400, 'ERR_MALFORMED_REQUEST', lines],
] as const) {
  test(`a request with ${what} gets the error format and an operation id`, async () => {
    for (const path of ['/caller', '/no/such/path', '/healthz']) {
      const answer = await answerTo(`GET ${path} HTTP/1.1\r\n${text}\r\n`)
      assert.deepEqual([answer.status, answer.body?.error_code], [status, code], answer.text)
      assert.match(answer.headers.get('operation-id') ?? '', /^op_/)
      assert.equal(answer.body.details.operation_id, answer.headers.get('operation-id'))
    }
  })
}

test('Expect: 100-continue is honored, and HTTP/1.0 needs no Host for the probes', async () => {
  const path = { method: 'POST', path: '/ip_policies' }
  const connection = await RawConnection.open(plane)
  const length = ['Content-Length', '2'] as const
  connection.write(
    `POST ${path.path} HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n${[...good, json, length].map((line) => line.join(': ')).join('\r\n')}\r\n\r\n`,
  )
  assert.equal((await connection.answer())?.status, 100)
  connection.write('{}')
  assert.equal((await connection.answer())?.status, 201)
  connection.close()
  assert.equal((await answerTo('GET /healthz HTTP/1.0\r\n\r\n')).status, 200)
})

test('a body with a content coding gets 415, whether or not it really is compressed', async () => {
  const bodies = { gzip: gzipSync('{}'), br: '{}', deflate: '{}', 'identity, gzip': '{}' }
  for (const [coding, body] of Object.entries(bodies)) {
    for (const type of ['application/json', 'text/plain']) {
      const method = type === 'text/plain' ? 'PUT' : 'POST'
      const path = type === 'text/plain' ? `/ip_policies/${one}/rules` : '/api_keys'
      const headers = [...good, ['Content-Type', type], ['Content-Encoding', coding]] as const
      const answer = await rawExchange(plane, { method, path, headers, body })
      assert.deepEqual([answer.status, answer.body.error_code], [415, 'ERR_CONTENT_TYPE'], `${coding} ${answer.text}`)
      assert.match(answer.body.msg, /Content-Encoding/)
    }
  }
  const headers = [...good, json, ['Content-Encoding', 'Identity']] as const
  assert.equal((await rawExchange(plane, { method: 'POST', path: '/api_keys', headers, body: '{}' })).status, 201)
})

test('an empty body says so', async () => {
  const answer = await rawExchange(plane, { method: 'POST', path: '/api_keys', headers: [...good, json], body: '' })
  assert.deepEqual([answer.status, answer.body.error_code], [400, 'ERR_INVALID_JSON'])
  assert.match(answer.body.msg, /The body is empty\. Send at least \{\}\./)
})

test('a raw # in the request target gets 400, and an encoded one does not', async () => {
  for (const path of ['/api_keys#x', '/api_keys?limit=1#x', '/api_keys/#', '/no/such/path#x']) {
    const answer = await rawExchange(plane, { method: 'GET', path, headers: good })
    assert.deepEqual([answer.status, answer.body.error_code], [400, 'ERR_MALFORMED_REQUEST'], path)
    assert.match(answer.body.msg, /%23/)
  }
  assert.equal((await admin('GET', `/api_keys/ak_%23`)).status, 404)
})

test('a long name that is not known is not echoed whole', async () => {
  const long = 'x'.repeat(5_000)
  const answers = [
    await admin('POST', '/api_keys', { [long]: 1 }),
    await admin('GET', `/api_keys?${long}=1`),
    await admin('POST', '/backends/http_response', { headers: { [long]: '1' } }),
    await admin('POST', '/api_keys', undefined, { rawBody: `{"${long}":1,"${long}":1}` }),
    await admin('POST', '/api_keys', { ['😀'.repeat(2_000)]: 1 }),
  ]
  for (const { status, text } of answers) {
    assert.equal(status, 400, text)
    assert.ok(text.length < 2_000, `${text.length} characters`)
    assert.ok(text.isWellFormed())
  }
  assert.match(answers[0]?.body.details.field, /^x{100,}…$/)
})

test('a duplicate in a list is named with its index, on create, PATCH and modules', async () => {
  const restriction = await admin('POST', '/ip_restrictions', { type: 'agent', ip_policy_ids: [one] })
  const edge = await admin('POST', '/edges/tcp', {})
  const ip_policy_ids = [one, other, one]
  for (const [answer, field] of [
    [await admin('POST', '/ip_restrictions', { type: 'agent', ip_policy_ids }), 'ip_policy_ids[2]'],
    [await admin('PATCH', restriction.body.uri, { ip_policy_ids }), 'ip_policy_ids[2]'],
    [await admin('PUT', `/edges/tcp/${edge.body.id}/ip_restriction`, { ip_policy_ids }), 'ip_policy_ids[2]'],
    [await admin('POST', '/edges/tcp', { ip_restriction: { ip_policy_ids } }), 'ip_restriction.ip_policy_ids[2]'],
    [await admin('POST', '/api_keys', { scopes: ['*.get', '*.list', '*.list'] }), 'scopes[2]'],
  ] as const) {
    assert.deepEqual([answer.status, answer.body.details.field], [400, field], answer.text)
    assert.ok(answer.body.msg.startsWith(`${field} `), answer.body.msg)
  }
})

test('the health of an HTTP response backend is an empty list', async () => {
  const { body: backend } = await admin('POST', '/backends/http_response', { status_code: 503 })
  const health = await admin('GET', `/backends/http_response/${backend.id}/health`)
  assert.deepEqual(
    [health.status, health.body],
    [200, { backend: { id: backend.id, uri: backend.uri }, servers: [], addresses: [] }],
  )
})

nothingWasADefect(plane)
