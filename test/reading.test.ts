// What helps those who read and write with their own programs.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { startControlPlane } from './harness/control_plane.ts'
import { nothingWasADefect } from './harness/defects.ts'
import { newHttpsEdge, newPolicy, newRoute } from './harness/fixtures.ts'

const plane = await startControlPlane({ after }, { env: { GATEHOUSE_REQUESTS_PER_MINUTE: '60000' } })
const admin = await plane.newAccount()

test('201 says in Location where the new resource is, even when it is repeated', async () => {
  const options = { headers: { 'idempotency-key': 'once' } }
  for (let n = 0; n < 2; n++) {
    const { headers, body } = await admin('POST', '/ip_policies', {}, options)
    assert.equal(headers.get('location'), body.uri)
  }
  const route = await newRoute(admin, {}, await newHttpsEdge(admin))
  assert.equal((await admin('GET', route.uri)).status, 200)
})

test('GET and HEAD of what the client has are 304 without a body, until it changes', async () => {
  const { uri } = await newPolicy(admin)
  const etag = (await admin('GET', uri)).headers.get('etag') ?? ''
  for (const tags of [etag, `"other", ${etag}`, `W/${etag}`, '*'])
    for (const method of ['GET', 'HEAD']) {
      const { status, text, headers } = await admin(method, uri, undefined, { headers: { 'if-none-match': tags } })
      assert.deepEqual([status, text, headers.get('etag')], [304, '', etag], tags)
      assert.match(headers.get('operation-id') ?? '', /^op_/)
      assert.match(headers.get('ratelimit') ?? '', /^"key"/)
    }
  const had = { headers: { 'if-none-match': etag } }
  assert.equal((await admin('PATCH', uri, { description: 'changed' }, had)).status, 200)
  assert.equal((await admin('GET', uri, undefined, had)).status, 200)
  assert.equal((await admin('GET', '/ip_policies', undefined, { headers: { 'if-none-match': '*' } })).status, 200)
  const stranger = await plane.newAccount()
  assert.equal((await stranger('GET', uri, undefined, { headers: { 'if-none-match': '*' } })).status, 404)
})

test('a path that is nearly right gets a suggestion, and one that is not gets none', async () => {
  const suggestions: [path: string, suggestion: string | undefined][] = [
    ['/v2/api_keys', '/api_keys'],
    ['/api/v2/api_keys/x', '/api_keys/x'],
    ['/api-keys', '/api_keys'],
    ['/Api_Keys', '/api_keys'],
    ['/api_keys/', '/api_keys'],
    ['/ip_polices', '/ip_policies'],
    ['/edges/https/e/routes/r/request-headers', '/edges/https/e/routes/r/request_headers'],
    ['/completely/different/words/that/resemble/nothing', undefined],
    [`/${'x'.repeat(1_000)}`, undefined],
  ]
  for (const [path, suggestion] of suggestions) {
    const { status, body } = await admin('GET', path)
    assert.deepEqual([status, body.error_code, body.details.suggestion], [404, 'ERR_ROUTE_NOT_FOUND', suggestion], path)
    if (suggestion) assert.ok(body.msg.endsWith(`Use ${suggestion}.`), body.msg)
  }
})

test('GET /caller says what the key may do, from where, until when and how often', async () => {
  const limits = { scopes: ['caller.get'], allowed_cidrs: ['127.0.0.1/32'], expires_at: '2099-01-01T00:00:00.000Z' }
  const { body: key } = await admin('POST', '/api_keys', limits)
  const limited = plane.clientFor(key.token)
  const { body } = await limited('GET', '/caller')
  const { scopes, allowed_cidrs, expires_at, requests_per_minute } = body
  assert.deepEqual({ scopes, allowed_cidrs, expires_at }, limits)
  assert.deepEqual([requests_per_minute, body.account_requests_per_minute], [60_000, 600_000])
  const { body: refused } = await limited('GET', '/api_keys')
  assert.deepEqual([refused.error_code, refused.details.missing], ['ERR_SCOPE', 'api_keys.list'])
})

nothingWasADefect(plane)
