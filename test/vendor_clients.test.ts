import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { startControlPlane } from './harness/control_plane.ts'
import { freshHost } from './harness/fixtures.ts'
import { type HeaderLine, rawExchange } from './harness/raw.ts'

/**
 * Requests as the vendor's client libraries send them, with their headers in their order and spelling, and what those
 * libraries need in the responses. Taken from their public sources: the tests do not run the libraries.
 */
const plane = await startControlPlane({ after }, { env: { GATEHOUSE_VERSION_HEADER_ALIASES: 'Ngrok-Version' } })

type Sender = {
  headers: (token: string, hasBody: boolean) => HeaderLine[]
  /** How the library writes JSON. */
  encode: (body: object) => string
  /** Whether its PATCH, and its POST of a route, repeat the ids of the path in the body. */
  repeatsIds: boolean
  /** What it does with a text that is not given on creation. */
  emptyTexts: boolean
}

const clients: Record<string, Sender> = {
  Go: {
    headers: (token, hasBody) => [
      ['User-Agent', 'ngrok-api-go/v6.1.0/1.22.0'],
      ['Authorization', `Bearer ${token}`],
      ...((hasBody ? [['Content-Type', 'application/json']] : []) as HeaderLine[]),
      ['Ngrok-Version', '2'],
      ['Accept-Encoding', 'gzip'],
    ],
    // encoding/json escapes what could be HTML.
    encode: (body) =>
      JSON.stringify(body).replaceAll(/[<>&]/g, (found) => `\\u00${found.charCodeAt(0).toString(16).padStart(2, '0')}`),
    repeatsIds: false,
    emptyTexts: false,
  },
  Python: {
    headers: (token, hasBody) => [
      ['User-Agent', 'python-requests/2.31.0'],
      ['Accept-Encoding', 'gzip, deflate'],
      ['Accept', '*/*'],
      ['Connection', 'keep-alive'],
      ['ngrok-version', '2'],
      ['authorization', `Bearer ${token}`],
      ...((hasBody ? [['Content-Type', 'application/json']] : []) as HeaderLine[]),
    ],
    // json.dumps puts spaces after commas and colons, and writes ASCII only.
    encode: (body) =>
      JSON.stringify(body, null, 1)
        .replaceAll(/\n\s*/g, ' ')
        .replaceAll(/[{[] | [}\]]/g, (found) => found.trim())
        .replaceAll(/[^\0-\x7f]/g, (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, '0')}`),
    repeatsIds: false,
    emptyTexts: true,
  },
  TypeScript: {
    headers: (token) => [
      ['User-Agent', 'ngrok-api-typescript/0.10.0/v24.21.0'],
      ['Ngrok-Version', '2'],
      // Also on GET and DELETE, which have no body.
      ['Content-Type', 'application/json'],
      ['Authorization', `Bearer ${token}`],
      ['Accept', '*/*'],
      ['Accept-Encoding', 'gzip,deflate'],
      ['Connection', 'keep-alive'],
    ],
    encode: (body) => JSON.stringify(body),
    repeatsIds: true,
    emptyTexts: false,
  },
}

/** What a typed client can take: each field it knows, when it is there, must be of its type. Others it ignores. */
type Shape = {
  readonly [field: string]: 'string' | 'string?' | 'boolean' | 'strings' | 'texts' | Shape | readonly [Shape]
}
const Ref: Shape = { id: 'string', uri: 'string' }
const annotated: Shape = {
  id: 'string',
  uri: 'string',
  created_at: 'string',
  description: 'string',
  metadata: 'string',
}
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
const listOf = (field: string, item: Shape): Shape => ({ [field]: [item], uri: 'string', next_page_uri: 'string?' })
const ErrorBody: Shape = { error_code: 'string', msg: 'string', details: 'texts' }

/** As strict as decoding into a struct: null is taken for 'not there', another type is an error. */
function decode(shape: Shape, value: Record<string, unknown>, at = ''): void {
  for (const [field, wanted] of Object.entries(shape)) {
    const found = value[field]
    const where = `${at}.${field} is ${JSON.stringify(found)}`
    if (found === undefined || found === null) continue
    if (wanted === 'string' || wanted === 'string?') assert.equal(typeof found, 'string', where)
    else if (wanted === 'boolean') assert.equal(typeof found, 'boolean', where)
    else if (wanted === 'strings')
      assert.ok(Array.isArray(found) && found.every((one) => typeof one === 'string'), where)
    else if (wanted === 'texts')
      assert.ok(
        Object.values(found).every((one) => typeof one === 'string'),
        where,
      )
    else if (Array.isArray(wanted)) {
      assert.ok(Array.isArray(found), where)
      for (const one of found) decode(wanted[0], one, `${at}.${field}`)
    } else decode(wanted as Shape, found as Record<string, unknown>, `${at}.${field}`)
  }
}

for (const [name, sender] of Object.entries(clients)) {
  const session = async () => {
    const { token } = await plane.newAccount()
    const send = async (method: string, path: string, status: number, shape?: Shape, body?: object) => {
      const text = body && sender.encode(body)
      const answer = await rawExchange(plane, {
        method,
        path,
        headers: sender.headers(token, text !== undefined),
        ...(text !== undefined && { body: text }),
      })
      assert.equal(answer.status, status, `${method} ${path} ${text}: ${answer.text}`)
      if (!shape) assert.equal(answer.text, '')
      else decode(shape, answer.body)
      return answer.body
    }
    /** A creation by this library: it leaves out texts that are not given, or sends them empty. */
    const create = (path: string, shape: Shape, body: object) =>
      send('POST', path, 201, shape, sender.emptyTexts ? { description: '', metadata: '', ...body } : body)
    const patch = (path: string, shape: Shape, ids: object, body: object) =>
      send('PATCH', path, 200, shape, sender.repeatsIds ? { ...ids, ...body } : body)
    return { send, create, patch }
  }

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
