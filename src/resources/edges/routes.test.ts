import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { startControlPlane } from '../../../test/harness/control_plane.ts'
import { shownBackend, shownPolicies } from '../../../test/harness/fixtures.ts'

const plane = await startControlPlane({ after })

test('a TCP edge is described completely, and its modules can be replaced, read and deleted', async () => {
  const admin = await plane.newAccount()
  const { body: backend } = await admin('POST', '/backends/static', { address: 'DB.internal:5432' })
  assert.equal(backend.address, 'db.internal:5432')
  const { body: policy } = await admin('POST', '/ip_policies', {})
  const created = await admin('POST', '/edges/tcp', {
    hostports: ['TCP.example.com:20001'],
    backend: { backend_id: backend.id },
  })
  assert.equal(created.status, 201, created.text)
  assert.deepEqual(created.body.hostports, ['tcp.example.com:20001'])
  assert.deepEqual(created.body.backend, { enabled: true, ...shownBackend(backend) })
  assert.equal(created.body.ip_restriction, null)
  assert.ok(Number(created.headers.get('service-generation')) > 0)
  const path = `${created.body.uri}/ip_restriction`
  assert.equal((await admin('GET', path)).status, 404)
  const replaced = await admin('PUT', path, { ip_policy_ids: [policy.id] })
  assert.equal(replaced.status, 200, replaced.text)
  assert.deepEqual(replaced.body, { enabled: true, ...shownPolicies(policy) })
  assert.deepEqual((await admin('GET', path)).body, replaced.body)
  assert.equal((await admin('DELETE', `/ip_policies/${policy.id}`)).body.details.used_by, created.body.id)
  assert.equal((await admin('DELETE', path, undefined, { headers: { 'if-match': '"other"' } })).status, 412)
  const tag = replaced.headers.get('etag') ?? ''
  assert.equal((await admin('DELETE', path, undefined, { headers: { 'if-match': tag } })).status, 204)
  assert.equal((await admin('GET', path)).status, 404)
  assert.equal((await admin('DELETE', path)).status, 204)
  assert.equal((await admin('DELETE', backend.uri)).body.error_code, 'ERR_BACKEND_IN_USE')
})

test('an HTTPS route keeps its request headers exactly as sent', async () => {
  const admin = await plane.newAccount()
  const { body: edge } = await admin('POST', '/edges/https', { hostports: ['*.shop.example:443'] })
  const created = await admin('POST', `/edges/https/${edge.id}/routes`, { match_type: 'path_prefix', match: '/api' })
  assert.equal(created.status, 201, created.text)
  const path = `${created.body.uri}/request_headers`
  const sent = '{"add":{"X-Zebra":"1","__proto__":"2","A":"3","Host":"inner"},"remove":["Cookie","x-a_b"]}'
  const replaced = await admin('PUT', path, undefined, { rawBody: sent })
  assert.equal(replaced.status, 200, replaced.text)
  assert.equal(replaced.text, `{"enabled":true,${sent.slice(1)}`)
  assert.equal((await admin('GET', path)).text, replaced.text)
  const refused = await admin('PUT', path, { add: { 'X-A': 'ok', X_Forwarded_For: '1.2.3.4' } })
  assert.equal(refused.body.details.field, 'add.X_Forwarded_For')
  assert.equal((await admin('GET', edge.uri)).body.routes[0].request_headers.add['X-Zebra'], '1')
})

test('a route rejects encoded slashes unless it says otherwise, and its match has none', async () => {
  const admin = await plane.newAccount()
  const { body: edge } = await admin('POST', '/edges/https', { hostports: ['slashes.example:443'] })
  const routes = `/edges/https/${edge.id}/routes`
  const { body: route } = await admin('POST', routes, { match_type: 'path_prefix', match: '/a' })
  assert.equal(route.encoded_slashes, 'reject')
  assert.equal((await admin('PATCH', route.uri, { encoded_slashes: 'allow' })).body.encoded_slashes, 'allow')
  assert.equal((await admin('PATCH', route.uri, { match: '/b' })).body.encoded_slashes, 'allow')
  assert.equal((await admin('PATCH', route.uri, { encoded_slashes: 'reject' })).body.encoded_slashes, 'reject')
  const made = { match_type: 'path_prefix', match: '/c', encoded_slashes: 'allow' }
  assert.equal((await admin('POST', routes, made)).body.encoded_slashes, 'allow')
  assert.equal(route.path_variants, 'restrict')
  assert.equal((await admin('PATCH', route.uri, { path_variants: 'ignore' })).body.path_variants, 'ignore')
  assert.equal((await admin('PATCH', route.uri, { match: '/d' })).body.path_variants, 'ignore')
  for (const path_variants of ['allow', '', null, true])
    assert.equal((await admin('PATCH', route.uri, { path_variants })).body.details.field, 'path_variants')
  for (const encoded_slashes of ['decode', '', null, true])
    assert.equal((await admin('PATCH', route.uri, { encoded_slashes })).body.details.field, 'encoded_slashes')
  for (const match of ['/a%2fb', '/a%2Fb', '/a%5cb', '/a\\b'])
    assert.equal((await admin('PATCH', route.uri, { match })).body.details.field, 'match', match)
  assert.equal((await admin('PATCH', route.uri, { match: '/a%252fb' })).status, 200)
})

test('a route accepts WebSockets unless it says otherwise', async () => {
  const admin = await plane.newAccount()
  const { body: edge } = await admin('POST', '/edges/https', { hostports: ['websocket.example:443'] })
  const routes = `/edges/https/${edge.id}/routes`
  const { body: route } = await admin('POST', routes, { match_type: 'path_prefix', match: '/a' })
  assert.equal(route.websocket, true)
  assert.equal((await admin('PATCH', route.uri, { websocket: false })).body.websocket, false)
  assert.equal((await admin('PATCH', route.uri, { match: '/b' })).body.websocket, false)
  const made = { match_type: 'path_prefix', match: '/c', websocket: false }
  assert.equal((await admin('POST', routes, made)).body.websocket, false)
  for (const websocket of ['off', null, 0])
    assert.equal((await admin('PATCH', route.uri, { websocket })).body.details.field, 'websocket')
})

test('a route has timeouts only when it says so, and PATCH replaces all of them', async () => {
  const admin = await plane.newAccount()
  const { body: edge } = await admin('POST', '/edges/https', { hostports: ['timeouts.example:443'] })
  const routes = `/edges/https/${edge.id}/routes`
  const made = { match_type: 'path_prefix', match: '/a', timeouts: { response_seconds: 300, idle_seconds: 86_400 } }
  const { body: route } = await admin('POST', routes, made)
  assert.deepEqual(route.timeouts, { connect_seconds: null, response_seconds: 300, idle_seconds: 86_400 })
  assert.deepEqual((await admin('PATCH', route.uri, { match: '/b' })).body.timeouts, route.timeouts)
  assert.deepEqual((await admin('GET', route.uri)).body.timeouts, route.timeouts)
  const patched = await admin('PATCH', route.uri, { timeouts: { connect_seconds: 60 } })
  assert.deepEqual(patched.body.timeouts, { connect_seconds: 60, response_seconds: null, idle_seconds: null })
  for (const timeouts of [null, {}, { connect_seconds: null }]) {
    assert.equal((await admin('PATCH', route.uri, { timeouts: { connect_seconds: 7 } })).status, 200)
    assert.equal((await admin('PATCH', route.uri, { timeouts })).body.timeouts, null)
  }
  const refused: [object, string][] = [
    [{ connect_seconds: 61 }, 'timeouts.connect_seconds'],
    [{ response_seconds: 3_601 }, 'timeouts.response_seconds'],
    [{ idle_seconds: 86_401 }, 'timeouts.idle_seconds'],
    [{ idle_seconds: 0 }, 'timeouts.idle_seconds'],
    [{ idle_seconds: 1.5 }, 'timeouts.idle_seconds'],
    [{ idle_seconds: '5' }, 'timeouts.idle_seconds'],
    [{ queue_seconds: 5 }, 'timeouts.queue_seconds'],
  ]
  for (const [timeouts, field] of refused)
    assert.equal((await admin('PATCH', route.uri, { timeouts })).body.details.field, field)
})

test('a hostport belongs to one edge in the whole installation', async () => {
  const [alice, mallory] = [await plane.newAccount(), await plane.newAccount()]
  assert.equal((await alice('POST', '/edges/https', { hostports: ['one.example:443'] })).status, 201)
  const refused = await mallory('POST', '/edges/https', { hostports: ['two.example:443', 'ONE.example:443'] })
  assert.equal(refused.status, 409)
  assert.equal(refused.body.details.field, 'hostports[1]')
  assert.equal((await mallory('POST', '/edges/https', { hostports: ['two.example:443'] })).status, 201)
  assert.equal((await mallory('POST', '/edges/tcp', { hostports: ['x.example:80'] })).status, 400)
})

test('a repeated POST with the same Idempotency-Key creates once, and shows a token only the first time', async () => {
  const admin = await plane.newAccount()
  const headers = { 'idempotency-key': 'deploy-42' }
  const first = await admin('POST', '/api_keys', { description: 'ci' }, { headers })
  const again = await admin('POST', '/api_keys', { description: 'ci' }, { headers })
  assert.equal(again.status, 201)
  assert.deepEqual(again.body, { ...first.body, token: null })
  assert.equal(again.headers.get('idempotency-replayed'), 'true')
  assert.equal(again.headers.get('service-warning'), 'token=told_once')
  assert.equal((await admin('POST', '/api_keys', { description: 'other' }, { headers })).status, 409)
  const racing = await Promise.all(
    Array.from({ length: 8 }, () => admin('POST', '/ip_policies', {}, { headers: { 'idempotency-key': 'x' } })),
  )
  assert.equal(new Set(racing.map(({ body }) => body.id)).size, 1)
})
