import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { publicUrl } from '../harness/client.ts'
import { nothingWasADefect } from '../harness/defects.ts'
import {
  assertRefused,
  newBackend,
  newHttpsEdge,
  newPolicy,
  newRoute,
  newTcpEdge,
  shownBackend,
  shownPolicies,
} from '../harness/fixtures.ts'
import { moduleSamples, ofModules } from '../harness/route_modules.ts'
import { sharedControlPlane } from '../harness/shared_control_plane.ts'

const plane = await sharedControlPlane({ after })
const [admin, stranger] = [await plane.newAccount(), await plane.newAccount()]
const [policy, backend] = [await newPolicy(admin), await newBackend(admin)]
const edge = await newHttpsEdge(admin)
const routesOf = (of: { id: string }) => `/edges/https/${of.id}/routes`
const minimal = { match_type: 'path_prefix', match: '/' }

test('a new route has edge_id, id, uri, created_at, match_type, match, and null for each module that is not set', async () => {
  const { status, body } = await admin('POST', routesOf(await newHttpsEdge(admin)), minimal)
  assert.equal(status, 201)
  const { edge_id, id, uri, created_at, status: _health, ...rest } = body
  assert.match(id, /^edghtsrt_[0-9a-z]{26}$/)
  assert.equal(uri, `${publicUrl}/edges/https/${edge_id}/routes/${id}`)
  assert.match(created_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  const modules = {
    backend: null,
    ip_restriction: null,
    request_headers: null,
    response_headers: null,
    ...ofModules(() => null),
  }
  assert.deepEqual(rest, {
    ...minimal,
    encoded_slashes: 'reject',
    path_variants: 'restrict',
    websocket: true,
    timeouts: null,
    ...modules,
  })
})

test('a route can be read, changed and deleted; PATCH keeps omitted fields', async () => {
  const route = await newRoute(admin, { description: 'd', metadata: 'm' }, edge)
  assert.deepEqual((await admin('GET', route.uri)).body, route)
  assert.deepEqual((await admin('PATCH', route.uri, {})).body, route)
  const { metadata: _, ...rest } = route
  const changed = { ...rest, description: 'e', match_type: 'exact_path', match: '/changed' }
  const sent = { id: route.id, description: 'e', metadata: '', match_type: 'exact_path', match: '/changed' }
  assert.deepEqual((await admin('PATCH', route.uri, sent)).body, changed)
  assert.deepEqual((await admin('GET', route.uri)).body, changed)
  const { status, text } = await admin('DELETE', route.uri)
  assert.deepEqual([status, text], [204, ''])
  assertRefused(await admin('GET', route.uri), 404, 'ERR_NOT_FOUND')
  assertRefused(await admin('DELETE', route.uri), 404, 'ERR_NOT_FOUND')
})

test('an edge shows its routes, the newest first, as a GET shows each; so does the list of edges', async () => {
  const mine = await plane.newAccount()
  const parent = await newHttpsEdge(mine)
  const routes = []
  for (let count = 0; count < 3; count++) routes.unshift(await newRoute(mine, {}, parent))
  assert.deepEqual((await mine('GET', parent.uri)).body, { ...parent, routes })
  assert.deepEqual((await mine('GET', '/edges/https')).body.https_edges, [{ ...parent, routes }])
  await mine('DELETE', routes[1].uri)
  assert.deepEqual((await mine('GET', parent.uri)).body.routes, [routes[0], routes[2]])
})

test('an edge that is changed keeps its routes, and routes are no field of an edge in requests', async () => {
  const parent = await newHttpsEdge(admin)
  const route = await newRoute(admin, {}, parent)
  assert.deepEqual((await admin('PATCH', parent.uri, { description: 'd' })).body.routes, [route])
  assertRefused(await admin('PATCH', parent.uri, { routes: [] }), 400, 'ERR_INVALID_FIELD', 'routes')
  assertRefused(await admin('POST', '/edges/https', { routes: [minimal] }), 400, 'ERR_INVALID_FIELD', 'routes')
})

test("creating a route below an absent edge, another account's edge or a TCP edge gets 404", async () => {
  const [foreign, tcp, gone] = [await newHttpsEdge(stranger), await newTcpEdge(admin), await newHttpsEdge(admin)]
  await admin('DELETE', gone.uri)
  for (const id of [foreign.id, tcp.id, gone.id, 'edghts_00000000000000000000000000', 'x'])
    assertRefused(await admin('POST', routesOf({ id }), minimal), 404, 'ERR_NOT_FOUND')
  assert.deepEqual((await stranger('GET', foreign.uri)).body.routes, [])
})

test("a route of another edge, one's own or another account's, gets 404 for every operation and every module", async () => {
  const [route, sibling, foreign] = [await newRoute(admin), await newRoute(admin), await newRoute(stranger)]
  const modules = {
    backend: { backend_id: backend.id },
    ip_restriction: { ip_policy_ids: [policy.id] },
    request_headers: {},
    response_headers: {},
    ...ofModules(({ least }) => least),
  }
  for (const path of [
    `${routesOf({ id: sibling.edge_id })}/${route.id}`,
    `${routesOf({ id: foreign.edge_id })}/${route.id}`,
    `${routesOf({ id: route.edge_id })}/${foreign.id}`,
    `${routesOf({ id: foreign.edge_id })}/${foreign.id}`,
  ]) {
    for (const [method, body] of [['GET'], ['PATCH', { description: 'x' }], ['DELETE']] as const)
      assertRefused(await admin(method, path, body), 404, 'ERR_NOT_FOUND')
    for (const [name, module] of Object.entries(modules)) {
      for (const [method, body] of [['PUT', module], ['GET'], ['DELETE']] as const)
        assertRefused(await admin(method, `${path}/${name}`, body), 404, 'ERR_NOT_FOUND')
    }
  }
  assert.deepEqual((await admin('GET', route.uri)).body, route)
  assert.deepEqual((await stranger('GET', foreign.uri)).body, foreign)
})

test('match_type is exact_path or path_prefix, and both are required on create', async () => {
  const path = routesOf(await newHttpsEdge(admin))
  for (const match_type of ['exact_path', 'path_prefix'])
    assert.equal((await admin('POST', path, { match_type, match: `/${match_type}` })).body.match_type, match_type)
  for (const match_type of ['', 'prefix', 'EXACT_PATH', null, 1])
    assertRefused(await admin('POST', path, { match_type, match: '/x' }), 400, 'ERR_INVALID_FIELD', 'match_type')
  assertRefused(await admin('POST', path, { match: '/x' }), 400, 'ERR_INVALID_FIELD', 'match_type')
  assertRefused(await admin('POST', path, { match_type: 'exact_path' }), 400, 'ERR_INVALID_FIELD', 'match')
})

test('match is a path that begins with /, without query, at most 1024 bytes, kept as it is', async () => {
  const path = routesOf(await newHttpsEdge(admin))
  const send = (match: unknown) => admin('POST', path, { match_type: 'exact_path', match })
  for (const match of ['/', '/API', '/api', '/api/', '/a//b', '/%C3%A9', "/!$&'()*+,;=:@-._~", `/${'x'.repeat(1_023)}`])
    assert.equal((await send(match)).body.match, match)
  for (const match of [
    '',
    'api',
    '*',
    '/a?b',
    '/a#b',
    '/a b',
    '/é',
    '/a\n',
    '/\0',
    '/a\\b',
    'https://a/',
    `/${'x'.repeat(1_024)}`,
    null,
  ])
    assertRefused(await send(match), 400, 'ERR_INVALID_FIELD', 'match')
})

test('a match is unique per edge: the same one again gets 409, on create and on PATCH', async () => {
  const parent = await newHttpsEdge(admin)
  const [one, two] = [
    await newRoute(admin, { match: '/one' }, parent),
    await newRoute(admin, { match: '/two' }, parent),
  ]
  const taken = { match_type: 'path_prefix', match: '/one' }
  assertRefused(await admin('POST', routesOf(parent), taken), 409, 'ERR_MATCH_TAKEN', 'match')
  assertRefused(await admin('PATCH', two.uri, { match: '/one' }), 409, 'ERR_MATCH_TAKEN', 'match')
  assert.deepEqual((await admin('PATCH', one.uri, { match: '/one' })).body, one)
  assert.equal((await admin('POST', routesOf(await newHttpsEdge(admin)), taken)).status, 201)
  await admin('DELETE', one.uri)
  assert.equal((await admin('PATCH', two.uri, { match: '/one' })).body.match, '/one')
})

test('one path may be matched exactly by one route and as a prefix by another', async () => {
  const parent = await newHttpsEdge(admin)
  await newRoute(admin, { match_type: 'path_prefix', match: '/a' }, parent)
  const exact = await newRoute(admin, { match_type: 'exact_path', match: '/a' }, parent)
  assertRefused(await admin('PATCH', exact.uri, { match_type: 'path_prefix' }), 409, 'ERR_MATCH_TAKEN', 'match')
})

test('only one of many concurrent requests for a match gets it', async () => {
  for (let round = 0; round < 5; round++) {
    const path = routesOf(await newHttpsEdge(admin))
    const answers = await Promise.all(Array.from({ length: 6 }, () => admin('POST', path, minimal)))
    assert.deepEqual(answers.map(({ status }) => status).sort(), [201, 409, 409, 409, 409, 409])
  }
})

test('modules are set inline on create and PATCH; null removes one, and an omitted one stays', async () => {
  const sent = {
    backend: { enabled: false, backend_id: backend.id },
    ip_restriction: { ip_policy_ids: [policy.id] },
    request_headers: { add: { 'X-A': '1' } },
    response_headers: { remove: ['Host'] },
    ...ofModules(({ least }) => least),
  }
  const shown = {
    backend: { enabled: false, ...shownBackend(backend) },
    ip_restriction: { enabled: true, ...shownPolicies(policy) },
    request_headers: { enabled: true, add: { 'X-A': '1' }, remove: [] },
    response_headers: { enabled: true, add: {}, remove: ['Host'] },
    ...ofModules((sample) => ({ enabled: true, ...sample.shown })),
  }
  const created = await newRoute(admin, sent, edge)
  assert.deepEqual(created, { ...created, ...shown })
  const empty = await newRoute(admin, { backend: null, ip_restriction: null, request_headers: null }, edge)
  const patched = (await admin('PATCH', empty.uri, sent)).body
  assert.deepEqual(patched, { ...empty, ...shown, status: patched.status })
  for (const name of Object.keys(shown)) {
    const { status, body } = await admin('PATCH', created.uri, { [name]: null })
    assert.deepEqual([status, body[name]], [200, null])
    assertRefused(await admin('GET', `${created.uri}/${name}`), 404, 'ERR_NOT_FOUND')
  }
  assert.deepEqual((await admin('GET', empty.uri)).body, patched)
})

test('an error in an inline module names its position, and the request changes nothing', async () => {
  const route = await newRoute(admin, { description: 'kept' }, edge)
  const foreign = { policy: await newPolicy(stranger), backend: await newBackend(stranger) }
  for (const [modules, field] of [
    [{ request_headers: { add: { 'X-A': 'ok', TE: 'x' } } }, 'request_headers.add.TE'],
    [{ request_headers: { remove: ['X-A', 'Host'] } }, 'request_headers.remove[1]'],
    [{ response_headers: { add: { 'X-A': 'ok', 'X-Request-Id': '1' } } }, 'response_headers.add.X-Request-Id'],
    [{ response_headers: { remove: ['X-A', 'x_request_id'] } }, 'response_headers.remove[1]'],
    ...Object.entries(moduleSamples).flatMap(([name, { faults }]) =>
      faults.map(([body, field]) => [{ [name]: body }, `${name}.${field}`] as const),
    ),
    [{ response_headers: { remove: ['Content-Length'] } }, 'response_headers.remove[0]'],
    [{ response_headers: { add: { 'X-A': 'a\r\nX-B: b' } } }, 'response_headers.add.X-A'],
    [{ ip_restriction: { ip_policy_ids: [policy.id, foreign.policy.id] } }, 'ip_restriction.ip_policy_ids[1]'],
    [{ backend: { backend_id: foreign.backend.id } }, 'backend.backend_id'],
    [{ backend: { backend_id: backend.id, extra: 1 } }, 'backend.extra'],
  ] as const) {
    const answer = await admin('POST', routesOf(edge), { ...minimal, match: '/new', ...modules })
    assertRefused(answer, 400, 'ERR_INVALID_FIELD', field)
    assertRefused(await admin('PATCH', route.uri, { description: 'lost', ...modules }), 400, 'ERR_INVALID_FIELD', field)
  }
  assert.deepEqual((await admin('GET', route.uri)).body, route)
})

test('an edge has at most 1000 routes: the next one gets 409, until one goes', async () => {
  const parent = await newHttpsEdge(admin)
  const path = routesOf(parent)
  // Straight into the database: a thousand requests would show the same, much later.
  await plane.db.query({
    text: `insert into edges (account_id, id, kind, parent_id, match_type, match)
           select account_id, gen_random_uuid(), 'route', id, 'exact_path', '/filler/' || n
           from edges, generate_series(1, 998) n
           where id = (select id from edges where kind = 'https' order by id desc limit 1)`,
  })
  assert.equal((await admin('GET', parent.uri)).body.routes.length, 998)
  const [one] = [await newRoute(admin, {}, parent), await newRoute(admin, {}, parent)]
  assertRefused(await admin('POST', path, minimal), 409, 'ERR_TOO_MANY')
  await admin('DELETE', one.uri)
  const racing = await Promise.all([1, 2, 3].map((n) => admin('POST', path, { ...minimal, match: `/${n}` })))
  assert.deepEqual(racing.map(({ status }) => status).sort(), [201, 409, 409])
})

nothingWasADefect(plane)
