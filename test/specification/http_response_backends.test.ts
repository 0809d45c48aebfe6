import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { publicUrl } from '../harness/client.ts'
import { nothingWasADefect } from '../harness/defects.ts'
import { assertRefused, make } from '../harness/fixtures.ts'
import { sharedControlPlane } from '../harness/shared_control_plane.ts'

const plane = await sharedControlPlane({ after })
const admin = await plane.newAccount()
const path = '/backends/http_response'

test('a response has status 200, no headers and no body unless it is asked for', async () => {
  const { status, body } = await admin('POST', path, {})
  assert.equal(status, 201)
  const { id, uri, created_at, status: _health, ...rest } = body
  assert.match(id, /^bkdhr_[0-9a-z]{26}$/)
  assert.equal(uri, `${publicUrl}${path}/${id}`)
  assert.match(created_at, /Z$/)
  assert.deepEqual(rest, { status_code: 200, headers: {}, body: '' })
})

test('headers come back exactly as sent, and PATCH keeps omitted fields', async () => {
  const sent = {
    status_code: 503,
    headers: { 'Retry-After': '60', 'content-type': 'text/html', '1': 'first', Location: 'https://example.com/?a=b c' },
    body: '<h1>Grüße</h1>\n',
    description: 'maintenance',
  }
  const backend = await make(admin, path, sent)
  const { id, uri, created_at: _, status: _health, ...rest } = backend
  assert.deepEqual(rest, sent)
  assert.deepEqual((await admin('GET', uri)).body, backend)
  assert.deepEqual((await admin('PATCH', uri, { id })).body, backend)
  assert.deepEqual((await admin('PATCH', uri, { status_code: 599 })).body, { ...backend, status_code: 599 })
  assert.deepEqual((await admin('PATCH', uri, { headers: {} })).body.headers, {})
  const empty = await admin('PATCH', uri, { body: '', status_code: 204 })
  assert.deepEqual(empty.body, { ...backend, headers: {}, body: '', status_code: 204 })
  assert.equal((await admin('DELETE', uri)).status, 204)
  assertRefused(await admin('GET', uri), 404, 'ERR_NOT_FOUND')
})

test('status codes, bodies and headers that no response can have are refused', async () => {
  const backend = await make(admin, path, { body: 'text' })
  const long = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, n) => [`x-${n}`, 'a']))
  for (const [fields, field] of [
    [{ status_code: 199 }, 'status_code'],
    [{ status_code: 600 }, 'status_code'],
    [{ status_code: '200' }, 'status_code'],
    [{ status_code: null }, 'status_code'],
    [{ status_code: 204, body: 'text' }, 'body'],
    [{ status_code: 304, body: 'text' }, 'body'],
    [{ body: 'a'.repeat(8193) }, 'body'],
    [{ body: 'é'.repeat(4097) }, 'body'],
    [{ body: 'a\0b' }, 'body'],
    [{ body: '\ud800' }, 'body'],
    [{ body: null }, 'body'],
    [{ headers: long(51) }, 'headers'],
    [{ headers: { a: 'a'.repeat(4096), b: 'b'.repeat(2000) } }, 'headers'],
    [{ headers: { a: 'b', A: 'c' } }, 'headers.A'],
    [{ headers: { 'a b': 'c' } }, 'headers.a b'],
    [{ headers: { '': 'c' } }, 'headers.'],
    [{ headers: { a: 'é' } }, 'headers.a'],
    [{ headers: { a: 'b\r\nSet-Cookie: c' } }, 'headers.a'],
    [{ headers: { a: ' b' } }, 'headers.a'],
    [{ headers: { a: 1 } }, 'headers.a'],
    [{ headers: ['a'] }, 'headers'],
  ] as const) {
    assertRefused(await admin('POST', path, fields), 400, 'ERR_INVALID_FIELD', field)
    assertRefused(await admin('PATCH', backend.uri, fields), 400, 'ERR_INVALID_FIELD', field)
  }
  for (const name of [
    ...['Connection', 'Content-Length', 'Keep-Alive', 'Proxy-Authenticate', 'TE', 'Trailer', 'Transfer-Encoding'],
    ...['Upgrade', 'X-Request-Id', 'x_request_id', 'content_length'],
  ])
    assertRefused(await admin('POST', path, { headers: { [name]: '1' } }), 400, 'ERR_INVALID_FIELD', `headers.${name}`)
  // A status that has no body, in a PATCH that leaves the body as it is.
  assertRefused(await admin('PATCH', backend.uri, { status_code: 204 }), 400, 'ERR_INVALID_FIELD', 'body')
  assert.deepEqual((await admin('GET', backend.uri)).body, backend)
  assert.equal((await admin('POST', path, { body: 'é'.repeat(4096), headers: long(50) })).status, 201)
})

nothingWasADefect(plane)
