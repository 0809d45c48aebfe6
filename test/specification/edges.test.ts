import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { publicUrl } from '../harness/client.ts'
import { nothingWasADefect } from '../harness/defects.ts'
import {
  assertRefused,
  freshHost,
  newBackend,
  newHttpsEdge,
  newPolicy,
  newRoute,
  newTcpEdge,
  shownBackend,
  shownPolicies,
} from '../harness/fixtures.ts'
import { connectionLimitSample } from '../harness/route_modules.ts'
import { sharedControlPlane } from '../harness/shared_control_plane.ts'

const plane = await sharedControlPlane({ after })
const [admin, stranger] = [await plane.newAccount(), await plane.newAccount()]
const [policy, backend] = [await newPolicy(admin), await newBackend(admin)]

const kinds = [
  {
    path: '/edges/tcp',
    list: 'tcp_edges',
    port: await plane.freshTcpPort(),
    prefix: 'edgtcp',
    parts: { backend: null, ip_restriction: null, rate_limit: null },
  },
  { path: '/edges/https', list: 'https_edges', port: 443, prefix: 'edghts', parts: { routes: [], mutual_tls: null } },
]

for (const { path, list, port, prefix, parts } of kinds) {
  // A TCP port belongs to one account.
  const freshPort = async () => (port === 443 ? 443 : plane.freshTcpPort())
  const [otherPort, freedPort] = [await freshPort(), await freshPort()]

  test(`${path}: a new edge has id, uri, created_at, hostports and its parts; modules that are not set are null`, async () => {
    const { status, body } = await admin('POST', path, {})
    assert.equal(status, 201)
    // Not in the specification.
    const { cells, status: _health, ...specified } = body
    assert.equal(cells, null)
    const { id, uri, created_at, ...rest } = specified
    assert.match(id, new RegExp(`^${prefix}_[0-9a-z]{26}$`))
    assert.equal(uri, `${publicUrl}${path}/${id}`)
    assert.match(created_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
    assert.deepEqual(rest, { hostports: [], ...parts })
  })

  test(`${path}: description and metadata are shown when they are set, and a PATCH changes what it names`, async () => {
    const hostports = [`${freshHost()}:${port}`]
    const { body: edge } = await admin('POST', path, { description: 'd', metadata: 'm', hostports })
    assert.deepEqual([edge.description, edge.metadata, edge.hostports], ['d', 'm', hostports])
    assert.deepEqual((await admin('PATCH', edge.uri, {})).body, edge)
    assert.deepEqual((await admin('PATCH', edge.uri, { id: edge.id, description: 'e' })).body, {
      ...edge,
      description: 'e',
    })
    const { description: _, ...without } = edge
    assert.deepEqual((await admin('PATCH', edge.uri, { description: null })).body, without)
    assert.deepEqual((await admin('GET', edge.uri)).body, without)
  })

  test(`${path}: ${list} are listed newest first, as a GET shows each, and only one's own`, async () => {
    const [mine, other] = [await plane.newAccount(), await plane.newAccount()]
    const edges = []
    for (let count = 0; count < 3; count++)
      edges.unshift((await mine('POST', path, { hostports: [`${freshHost()}:${otherPort}`] })).body)
    await other('POST', path, {})
    const { body } = await mine('GET', path)
    assert.deepEqual(body, { [list]: edges, uri: publicUrl + path, next_page_uri: null })
    const { body: page } = await mine('GET', `${path}?limit=2`)
    assert.deepEqual(page[list], edges.slice(0, 2))
    assert.deepEqual((await mine('GET', page.next_page_uri)).body[list], edges.slice(2))
  })

  test(`${path}: deleting is 204, then 404, and frees the hostports for anyone`, async () => {
    const hostports = [`${freshHost()}:${freedPort}`]
    const { body: edge } = await admin('POST', path, { hostports })
    assert.equal((await stranger('POST', path, { hostports })).status, 409)
    assert.equal((await admin('DELETE', edge.uri)).status, 204)
    assertRefused(await admin('GET', edge.uri), 404, 'ERR_NOT_FOUND')
    assertRefused(await admin('DELETE', edge.uri), 404, 'ERR_NOT_FOUND')
    assert.equal((await stranger('POST', path, { hostports })).status, 201)
  })

  test(`${path}: another account's edge, an absent one, and one of the other kind are the same 404`, async () => {
    const foreign = (await stranger('POST', path, {})).body
    const otherKind = path === '/edges/tcp' ? await newHttpsEdge(admin) : await newTcpEdge(admin)
    const forged = `${prefix}_${otherKind.id.split('_')[1]}`
    for (const id of [foreign.id, `${prefix}_00000000000000000000000000`, otherKind.id, forged, 'x']) {
      for (const [method, body] of [['GET'], ['PATCH', {}], ['DELETE']] as const)
        assertRefused(await admin(method, `${path}/${id}`, body), 404, 'ERR_NOT_FOUND')
    }
  })
}

test('deleting an edge frees the policies and backends of its modules, and of its routes', async () => {
  const modules = async () => {
    const [ip, upstream] = [await newPolicy(admin), await newBackend(admin)]
    return { ip, upstream, sent: { backend: { backend_id: upstream.id }, ip_restriction: { ip_policy_ids: [ip.id] } } }
  }
  const [tcp, https] = [await modules(), await modules()]
  const edge = await newTcpEdge(admin, tcp.sent)
  const route = await newRoute(admin, https.sent)
  for (const [uri, { ip, upstream }] of [
    [edge.uri, tcp],
    [`/edges/https/${route.edge_id}`, https],
  ] as const) {
    for (const used of [ip, upstream]) assert.equal((await admin('DELETE', used.uri)).status, 409)
    assert.equal((await admin('DELETE', uri)).status, 204)
    for (const free of [ip, upstream]) assert.equal((await admin('DELETE', free.uri)).status, 204)
  }
  assertRefused(await admin('GET', route.uri), 404, 'ERR_NOT_FOUND')
})

test('/edges/tcp: modules are set inline on create and PATCH; null removes one, and an omitted one stays', async () => {
  const { least, shown: limit, faults } = connectionLimitSample
  const sent = {
    backend: { backend_id: backend.id },
    ip_restriction: { enabled: false, ip_policy_ids: [policy.id] },
    rate_limit: least,
  }
  const shown = {
    backend: { enabled: true, ...shownBackend(backend) },
    ip_restriction: { enabled: false, ...shownPolicies(policy) },
    rate_limit: { enabled: true, ...limit },
  }
  const created = await newTcpEdge(admin, sent)
  assert.deepEqual(created, { ...created, ...shown })
  const empty = await newTcpEdge(admin, { backend: null, ip_restriction: null })
  const patched = await admin('PATCH', empty.uri, sent)
  assert.deepEqual(patched.body, { ...empty, ...shown })
  const described = await admin('PATCH', empty.uri, { description: 'd' })
  assert.deepEqual(described.body, { ...empty, description: 'd', ...shown })
  const without = await admin('PATCH', empty.uri, { ip_restriction: null })
  assert.deepEqual(without.body, { ...described.body, ip_restriction: null })
  // Inline it is the whole module too: enabled is true again.
  const again = await admin('PATCH', created.uri, { ip_restriction: { ip_policy_ids: [policy.id] } })
  assert.equal(again.body.ip_restriction.enabled, true)
  for (const [rate_limit, field] of faults) {
    assertRefused(await admin('PATCH', empty.uri, { rate_limit }), 400, 'ERR_INVALID_FIELD', `rate_limit.${field}`)
    assertRefused(await admin('PUT', `${empty.uri}/rate_limit`, rate_limit), 400, 'ERR_INVALID_FIELD', field)
  }
})

test('/edges/tcp: an error in an inline module names its position, and the request changes nothing', async () => {
  const edge = await newTcpEdge(admin, { description: 'kept' })
  const absent = { bkdst: 'bkdst_00000000000000000000000000', ipp: 'ipp_00000000000000000000000000' }
  for (const [modules, field] of [
    [{ backend: { backend_id: absent.bkdst } }, 'backend.backend_id'],
    [{ backend: {} }, 'backend.backend_id'],
    [
      { backend: { backend_id: backend.id }, ip_restriction: { ip_policy_ids: [policy.id, absent.ipp] } },
      'ip_restriction.ip_policy_ids[1]',
    ],
    [{ ip_restriction: { ip_policy_ids: [] } }, 'ip_restriction.ip_policy_ids'],
    [{ ip_restriction: [] }, 'ip_restriction'],
    [{ request_headers: {} }, 'request_headers'],
  ] as const) {
    assertRefused(await admin('POST', '/edges/tcp', modules), 400, 'ERR_INVALID_FIELD', field)
    assertRefused(await admin('PATCH', edge.uri, { description: 'lost', ...modules }), 400, 'ERR_INVALID_FIELD', field)
  }
  assert.deepEqual((await admin('GET', edge.uri)).body, edge)
})

nothingWasADefect(plane)
