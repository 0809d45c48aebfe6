import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { startControlPlane } from './harness/control_plane.ts'
import { freshHost } from './harness/fixtures.ts'
import { annotated, listOf, Ref, type Shape, vendorClients, vendorSession } from './harness/vendor.ts'

const plane = await startControlPlane({ after }, { env: { GATEHOUSE_VERSION_HEADER_ALIASES: 'Ngrok-Version' } })

const ApiKey: Shape = { ...annotated, token: 'string?', owner_id: 'string' }
const IpPolicy = annotated
const IpPolicyRule: Shape = { ...annotated, cidr: 'string', ip_policy: Ref, action: 'string' }
const IpRestriction: Shape = { ...annotated, enforced: 'boolean', type: 'string', ip_policies: [Ref] }
const BackendModule: Shape = { enabled: 'boolean', backend: Ref }
const IpRestrictionModule: Shape = { enabled: 'boolean', ip_policies: [Ref] }
const RequestHeaders: Shape = { enabled: 'boolean', add: 'texts', remove: 'strings' }
const StaticBackend: Shape = { ...annotated, address: 'string', tls: { enabled: 'boolean' } }
const TcpEdge: Shape = {
  ...annotated,
  hostports: 'strings',
  backend: BackendModule,
  ip_restriction: IpRestrictionModule,
}
const Route: Shape = {
  ...annotated,
  edge_id: 'string',
  match_type: 'string',
  match: 'string',
  backend: BackendModule,
  ip_restriction: IpRestrictionModule,
  request_headers: RequestHeaders,
}
const HttpsEdge: Shape = { ...annotated, hostports: 'strings', routes: [Route] }
const ErrorBody: Shape = { error_code: 'string', msg: 'string', details: 'texts' }

for (const [name, sender] of Object.entries(vendorClients)) {
  const session = () => vendorSession(plane, sender)

  test(`the ${name} client creates, reads, lists, pages, changes and deletes API keys`, async () => {
    const { send, create, patch } = await session()
    const key = await create('/api_keys', ApiKey, { description: 'ad <hoc> & dev', metadata: '{"environment":"é"}' })
    assert.equal(key.description, 'ad <hoc> & dev')
    assert.equal(key.metadata, '{"environment":"é"}')
    assert.match(key.token, /^gatehouse_/)
    assert.deepEqual(await send('GET', `/api_keys/${key.id}`, 200, ApiKey), { ...key, token: null })
    const changed = await patch(`/api_keys/${key.id}`, ApiKey, { id: key.id }, { description: 'renamed' })
    assert.deepEqual([changed.description, changed.metadata, changed.token], ['renamed', key.metadata, null])

    const second = await create('/api_keys', ApiKey, {})
    const first = await send('GET', '/api_keys?limit=1', 200, listOf('keys', ApiKey))
    assert.deepEqual(
      first.keys.map(({ id }: { id: string }) => id),
      [second.id],
    )
    // One library continues from the last id until a page is empty or the last; another follows next_page_uri.
    const next = await send('GET', `/api_keys?before_id=${second.id}&limit=1`, 200, listOf('keys', ApiKey))
    assert.equal(next.keys[0].id, key.id)
    assert.equal(new URL(first.next_page_uri).search, `?limit=1&before_id=${second.id}`)

    await send('DELETE', `/api_keys/${key.id}`, 204)
    const gone = await send('GET', `/api_keys/${key.id}`, 404, ErrorBody)
    assert.equal(gone.status_code, 404)
    assert.match(gone.details.operation_id, /^op_/)
  })

  test(`the ${name} client manages IP policies, their rules, and restrictions`, async () => {
    const { send, create, patch } = await session()
    const policy = await create('/ip_policies', IpPolicy, { description: 'office' })
    const changed = await patch(`/ip_policies/${policy.id}`, IpPolicy, { id: policy.id }, { metadata: 'm' })
    assert.deepEqual(changed, { ...policy, metadata: 'm' })
    const rule = await create('/ip_policy_rules', IpPolicyRule, {
      description: 'nyc office',
      cidr: '212.3.14.0/24',
      ip_policy_id: policy.id,
      action: 'allow',
    })
    assert.deepEqual(rule.ip_policy, { id: policy.id, uri: policy.uri })
    const moved = await patch(`/ip_policy_rules/${rule.id}`, IpPolicyRule, { id: rule.id }, { cidr: '132.2.19.0/24' })
    assert.deepEqual([moved.cidr, moved.action], ['132.2.19.0/24', 'allow'])
    const rules = await send('GET', '/ip_policy_rules?limit=100', 200, listOf('ip_policy_rules', IpPolicyRule))
    assert.deepEqual(rules.ip_policy_rules, [moved])

    // Go leaves out what is false.
    const enforced = name === 'Go' ? {} : { enforced: false }
    const restriction = await create('/ip_restrictions', IpRestriction, {
      ...enforced,
      type: 'dashboard',
      ip_policy_ids: [policy.id],
    })
    assert.equal(restriction.enforced, false)
    assert.deepEqual(restriction.ip_policies, [{ id: policy.id, uri: policy.uri }])
    const strict = await patch(
      `/ip_restrictions/${restriction.id}`,
      IpRestriction,
      { id: restriction.id },
      { enforced: true, ip_policy_ids: [policy.id] },
    )
    assert.equal(strict.enforced, true)
    const all = await send('GET', '/ip_restrictions?limit=100', 200, listOf('ip_restrictions', IpRestriction))
    assert.deepEqual(all.ip_restrictions, [strict])
    await send('DELETE', `/ip_restrictions/${restriction.id}`, 204)
    await send('DELETE', `/ip_policy_rules/${rule.id}`, 204)
    await send('DELETE', `/ip_policies/${policy.id}`, 204)
  })

  test(`the ${name} client manages TCP edges and their modules`, async () => {
    const { send, create, patch } = await session()
    const policy = await create('/ip_policies', IpPolicy, {})
    const backend = await create('/backends/static', StaticBackend, {
      address: 'app.internal:5432',
      tls: name === 'Go' ? {} : { enabled: false },
    })
    assert.deepEqual(backend.tls, { enabled: false })
    const hostport = `${freshHost()}:20001`
    const edge = await create('/edges/tcp', TcpEdge, {
      hostports: [hostport],
      backend: { enabled: true, backend_id: backend.id },
    })
    assert.deepEqual(edge.hostports, [hostport])
    assert.deepEqual(edge.backend.backend, { id: backend.id, uri: backend.uri })
    const path = `/edges/tcp/${edge.id}`
    const changed = await patch(
      path,
      TcpEdge,
      { id: edge.id },
      { description: 'db', ip_restriction: { enabled: true, ip_policy_ids: [policy.id] } },
    )
    assert.deepEqual(changed.ip_restriction.ip_policies, [{ id: policy.id, uri: policy.uri }])
    const replaced = await send('PUT', `${path}/ip_restriction`, 200, IpRestrictionModule, {
      enabled: false,
      ip_policy_ids: [policy.id],
    })
    assert.equal(replaced.enabled, false)
    assert.deepEqual(await send('GET', `${path}/ip_restriction`, 200, IpRestrictionModule), replaced)
    await send('DELETE', `${path}/ip_restriction`, 204)
    await send('PUT', `${path}/backend`, 200, BackendModule, { backend_id: backend.id })
    const edges = await send('GET', '/edges/tcp?limit=100', 200, listOf('tcp_edges', TcpEdge))
    assert.equal(edges.tcp_edges[0].description, 'db')
    await send('DELETE', path, 204)
  })

  test(`the ${name} client manages HTTPS edges, their routes and the modules of these`, async () => {
    const { send, create, patch } = await session()
    const policy = await create('/ip_policies', IpPolicy, {})
    const backend = await create('/backends/static', StaticBackend, { address: 'app.internal:8080' })
    const edge = await create('/edges/https', HttpsEdge, { hostports: [`${freshHost()}:443`] })
    const above = sender.repeatsIds ? { edge_id: edge.id } : {}
    const route = await create(`/edges/https/${edge.id}/routes`, Route, {
      ...above,
      match_type: 'path_prefix',
      match: '/',
      backend: { backend_id: backend.id },
      request_headers: { add: { 'X-From': 'edge' } },
    })
    assert.deepEqual(route.request_headers, { enabled: true, add: { 'X-From': 'edge' }, remove: [] })
    const path = `/edges/https/${edge.id}/routes/${route.id}`
    const changed = await patch(path, Route, { edge_id: edge.id, id: route.id }, { match: '/api' })
    assert.deepEqual([changed.match, changed.match_type], ['/api', 'path_prefix'])
    const headers = { add: { 'X-Frame-Options': 'DENY' }, remove: ['Cookie'] }
    const replaced = await send('PUT', `${path}/request_headers`, 200, RequestHeaders, headers)
    assert.deepEqual(replaced, { enabled: true, ...headers })
    assert.deepEqual(await send('GET', `${path}/request_headers`, 200, RequestHeaders), replaced)
    await send('DELETE', `${path}/request_headers`, 204)
    await send('PUT', `${path}/ip_restriction`, 200, IpRestrictionModule, { ip_policy_ids: [policy.id] })
    await send('DELETE', `${path}/ip_restriction`, 204)
    const shown = await send('GET', `/edges/https/${edge.id}`, 200, HttpsEdge)
    assert.equal(shown.routes[0].id, route.id)
    await send('DELETE', path, 204)
    await send('DELETE', `/edges/https/${edge.id}`, 204)
  })
}

test('an id in the body that differs from the path is refused, for either id', async () => {
  const admin = await plane.newAccount()
  const [edge, other] = [await admin('POST', '/edges/https', {}), await admin('POST', '/edges/https', {})]
  const routes = `/edges/https/${edge.body.id}/routes`
  const body = { match_type: 'path_prefix', match: '/' }
  const wrong = await admin('POST', routes, { ...body, edge_id: other.body.id })
  assert.deepEqual([wrong.status, wrong.body.details.field], [400, 'edge_id'])
  const right = await admin('POST', routes, { ...body, edge_id: edge.body.id })
  assert.equal(right.status, 201)
  const moved = await admin('PATCH', right.body.uri, { edge_id: other.body.id })
  assert.deepEqual([moved.status, moved.body.details.field], [400, 'edge_id'])
})
