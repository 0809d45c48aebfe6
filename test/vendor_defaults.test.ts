// What the vendor's libraries send for omitted arguments, taken from their public sources:
// the Python client 0.17.0 (services.py, http_client.py) and the TypeScript client 0.11.0 (util.ts).
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Answer, Client } from './harness/client.ts'
import { startControlPlane } from './harness/control_plane.ts'
import { newBackend, newPolicy, newRoute, newTcpEdge } from './harness/fixtures.ts'
import { type HeaderLine, headersOf, rawExchange } from './harness/raw.ts'

const plane = await startControlPlane({ after }, { env: { GATEHOUSE_VERSION_HEADER_ALIASES: 'Ngrok-Version' } })
const admin = await plane.newAccount()

type Send = (method: string, uri: string, body?: Record<string, unknown>) => Promise<Answer>

const sendWith =
  (client: Client, lines: (token: string) => HeaderLine[]): Send =>
  (method, uri, body) => {
    const type: HeaderLine[] = body ? [['Content-Type', 'application/json']] : []
    return rawExchange(plane, {
      method,
      path: uri.startsWith('http') ? new URL(uri).pathname : uri,
      headers: [...lines(client.token), ...type],
      // requests sends an empty body with its length for PUT, PATCH and POST.
      body: body ? JSON.stringify(body) : '',
    })
  }

const pythonLines = (token: string): HeaderLine[] => [
  ['User-Agent', 'python-requests/2.31.0'],
  ['Accept-Encoding', 'gzip, deflate'],
  ['Accept', '*/*'],
  ['Connection', 'keep-alive'],
  ['ngrok-version', '2'],
  ['authorization', `Bearer ${token}`],
]
const python = sendWith(admin, pythonLines)
/** What it reads of texts that are not set. */
const unset = { description: '', metadata: '' }
/** A client written from the specification. */
const strict = sendWith(admin, headersOf)

/** `update(edge_id, id, match_type="", match="", description="", metadata="")` */
const routeDefaults = { match_type: '', match: '', description: '', metadata: '' }

test('the Python client changes the match of a route and clears neither its description nor its metadata', async () => {
  const route = await newRoute(admin, { description: 'the shop', metadata: '{"team":"a"}' })
  const moved = await python('PATCH', route.uri, { ...routeDefaults, match: '/shop' })
  assert.equal(moved.status, 200, moved.text)
  assert.deepEqual(moved.body, { ...route, match: '/shop' })
  const exact = await python('PATCH', route.uri, { ...routeDefaults, match_type: 'exact_path' })
  assert.deepEqual(exact.body, { ...route, match: '/shop', match_type: 'exact_path' })
  const described = await python('PATCH', route.uri, { ...routeDefaults, description: 'the new shop' })
  assert.deepEqual(described.body, { ...exact.body, description: 'the new shop' })
  // null still clears.
  const cleared = await python('PATCH', route.uri, { ...routeDefaults, description: null })
  assert.equal(cleared.body.description, '')
  assert.equal(cleared.body.metadata, route.metadata)
})

test('the Python client enforces a restriction without repeating its policies', async () => {
  const policy = await newPolicy(admin)
  const { body: restriction } = await admin('POST', '/ip_restrictions', { type: 'agent', ip_policy_ids: [policy.id] })
  const enforced = await python('PATCH', restriction.uri, { enforced: true, ip_policy_ids: [] })
  assert.equal(enforced.status, 200, enforced.text)
  assert.deepEqual(enforced.body, { ...restriction, ...unset, enforced: true })
})

test('the Python client describes a backend without repeating its address', async () => {
  const backend = await newBackend(admin)
  const described = await python('PATCH', backend.uri, { description: 'app', address: '' })
  assert.equal(described.status, 200, described.text)
  assert.deepEqual(described.body, { ...backend, ...unset, description: 'app' })
})

test('an empty description still clears it where the Python client sends it only when asked to', async () => {
  const policy = await newPolicy(admin, { description: 'office' })
  const { body } = await python('PATCH', policy.uri, { description: '' })
  assert.equal(body.description, '')
})

test('an empty list of hostports still removes all of them from an edge', async () => {
  const edge = await newTcpEdge(admin, { hostports: ['python-defaults.example:20777'] })
  const { body } = await python('PATCH', edge.uri, { hostports: [] })
  assert.deepEqual(body.hostports, [])
})

test("the Python client's PUT of a module without settings has no body", async () => {
  const route = await newRoute(admin)
  const replaced = await python('PUT', `${route.uri}/request_headers`)
  assert.equal(replaced.status, 200, replaced.text)
  assert.deepEqual(replaced.body, { enabled: true, add: {}, remove: [] })
  const incomplete = await python('PUT', `${route.uri}/backend`)
  assert.deepEqual([incomplete.status, incomplete.body.details.field], [400, 'backend_id'])
})

test('an empty value is left out of a PATCH only, of the right type only, unless its field is not known', async () => {
  const policy = await newPolicy(admin)
  const { body: restriction } = await admin('POST', '/ip_restrictions', { type: 'agent', ip_policy_ids: [policy.id] })
  for (const [method, path, body, field] of [
    ['PATCH', restriction.uri, { ip_policy_ids: '' }, 'ip_policy_ids'],
    ['PATCH', restriction.uri, { enforced: '' }, 'enforced'],
    ['PATCH', restriction.uri, { nothing: 'x' }, 'nothing'],
    ['POST', '/ip_policies', { nothing: 'x' }, 'nothing'],
    ['POST', '/backends/static', { description: '', metadata: '', address: '' }, 'address'],
    ['POST', '/ip_restrictions', { type: 'api', ip_policy_ids: [] }, 'ip_policy_ids'],
  ] as const) {
    const refused = await python(method, path, body)
    assert.deepEqual([refused.status, refused.body.details.field], [400, field], `${method} ${JSON.stringify(body)}`)
  }
  assert.equal((await python('PATCH', restriction.uri, { nothing: '' })).status, 200)
  assert.equal((await python('POST', '/ip_policies', { nothing: [] })).status, 201)
  const nothing = await python('POST', '/ip_policies')
  assert.equal(nothing.status, 415)
})

test('clients of the specification are read literally, also where the vendor header is allowed', async () => {
  const policy = await newPolicy(admin)
  const { body: restriction } = await admin('POST', '/ip_restrictions', { type: 'agent', ip_policy_ids: [policy.id] })
  const backend = await newBackend(admin)
  const route = await newRoute(admin, { description: 'the shop' })
  const both = sendWith(admin, (token) => [...headersOf(token), ['Ngrok-Version', '2']])
  for (const send of [strict, both]) {
    for (const [uri, body, field] of [
      [restriction.uri, { enforced: true, ip_policy_ids: [] }, 'ip_policy_ids'],
      [backend.uri, { address: '' }, 'address'],
      [route.uri, { match: '' }, 'match'],
    ] as const) {
      const refused = await send('PATCH', uri, body)
      assert.deepEqual([refused.status, refused.body.details.field], [400, field], uri)
    }
    assert.equal((await send('PUT', `${route.uri}/request_headers`)).status, 415)
  }
  const cleared = await strict('PATCH', route.uri, { description: '' })
  assert.equal(cleared.body.description, undefined)
})

test('header names that the TypeScript client has rewritten are refused, not installed', async () => {
  const route = await newRoute(admin)
  const typescript = sendWith(admin, (token) => [
    ['User-Agent', 'ngrok-api-typescript/0.11.0/v24.21.0'],
    ['Ngrok-Version', '2'],
    ['Authorization', `Bearer ${token}`],
  ])
  const lowerCamelToSnake = (name: string) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
  for (const name of ['X-Frame-Options', 'Host', 'X-API-Key', 'x-Trace', 'XRequestID']) {
    const mangled = lowerCamelToSnake(name)
    const module = { add: { [mangled]: 'DENY' }, remove: [] }
    for (const [method, uri, body, prefix] of [
      ['PATCH', route.uri, { request_headers: module }, 'request_headers.'],
      ['PUT', `${route.uri}/request_headers`, module, ''],
    ] as const) {
      const refused = await typescript(method, uri, body)
      assert.deepEqual([refused.status, refused.body.details.field], [400, `${prefix}add.${mangled}`], mangled)
    }
  }
  for (const name of ['x-frame-options', 'x_frame_options', 'x-1_a']) {
    const taken = await typescript('PUT', `${route.uri}/request_headers`, { add: { [name]: 'DENY' } })
    assert.deepEqual([taken.status, Object.keys(taken.body.add ?? {})], [200, [name]])
  }
  const literal = await strict('PUT', `${route.uri}/request_headers`, { add: { '_x-_frame-_options': 'DENY' } })
  assert.equal(literal.status, 200, 'a client of the specification may use any token')
})
