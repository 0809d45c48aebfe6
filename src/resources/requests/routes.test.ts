import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { startNats } from '../../../dev/nats.ts'
import type { Client } from '../../../test/harness/client.ts'
import { startControlPlane } from '../../../test/harness/control_plane.ts'
import { connectNode, edgeRequest, uuidAt } from '../../../test/harness/edge_requests.ts'
import { assertRefused, newHttpsEdge, newRoute, newTcpEdge } from '../../../test/harness/fixtures.ts'
import { behindProxy, from, policyWith, restrict } from '../../../test/harness/ip.ts'
import { poll } from '../../../test/harness/poll.ts'
import { newUser } from '../../../test/harness/principals.ts'
import { rfc3339 } from '../../kernel/clock.ts'
import { newId, newUuid } from '../../kernel/ids.ts'

const nats = await startNats()
after(() => nats.stop())
const plane = await startControlPlane({ after }, { processes: 2, env: { ...nats.controlPlane, ...behindProxy } })
const { deliver } = await connectNode({ after }, nats.url)

const idsOf = async (as: Client, query = ''): Promise<string[]> => {
  const { body } = await as('GET', `/requests${query}`)
  return body.requests.map(({ id }: { id: string }) => id)
}

test('a kept request is resolved by its X-Request-Id to the node, edge, route, generation and the rule that decided', async () => {
  const admin = await plane.newAccount()
  const viewer = await newUser(plane, admin, 'viewer')
  const edge = await newHttpsEdge(admin)
  const route = await newRoute(admin, {}, edge)
  const [policy, rule, restriction] = [newId('ipp'), newId('ipr'), newId('ipx')]
  const sent = edgeRequest(admin, edge, { route: route.id, policy, rule, restriction, reason: 'restriction' })
  assert.equal(await deliver([sent]), 'kept')
  for (const process of [0, 1]) {
    const { status, body } = await viewer('GET', `/requests/${sent.id}`, undefined, { process })
    assert.equal(status, 200)
    assert.deepEqual(
      [body.id, body.created_at, body.node, body.outcome, body.reason, body.source_ip, body.path, body.generation],
      [sent.id, sent.at, 'edge-1', 'refused', 'restriction', null, '/cart', 7],
    )
    assert.deepEqual(
      [body.edge, body.route.uri, body.ip_restriction.id, body.ip_policy.id, body.ip_policy_rule.id],
      [{ id: edge.id, uri: edge.uri }, route.uri, restriction, policy, rule],
    )
  }
  const stranger = await plane.newAccount()
  const [theirs, absent] = [
    await stranger('GET', `/requests/${sent.id}`),
    await stranger('GET', `/requests/${newUuid()}`),
  ]
  assertRefused(theirs, 404, 'ERR_NOT_FOUND')
  assert.equal(theirs.body.msg, absent.body.msg)
  assert.deepEqual(await idsOf(stranger), [])
})

test('requests are listed newest first, page by page, and filtered by edge, route, outcome, source, status and time', async () => {
  const admin = await plane.newAccount()
  const [edge, tcp] = [await newHttpsEdge(admin), await newTcpEdge(admin)]
  const route = await newRoute(admin, {}, edge)
  const earlier = Date.now() - 2 * 60 * 60 * 1_000
  const old = edgeRequest(admin, edge, { id: uuidAt(earlier), at: rfc3339(earlier), source: '2001:db8::1' })
  const onRoute = edgeRequest(admin, edge, { route: route.id, outcome: 'warned', reason: null, status: 200 })
  const connection = { protocol: 'tcp', method: null, host: null, path: null, status: null } as const
  const onTcp = edgeRequest(admin, tcp, { ...connection, source: '192.0.2.200' })
  const failed = edgeRequest(admin, edge, {
    outcome: 'failed',
    reason: 'connect_failed',
    status: 502,
    source: '198.51.100.7',
  })
  await deliver([onTcp, old, failed, onRoute])
  const all = [failed.id, onTcp.id, onRoute.id, old.id]
  assert.deepEqual(new Set(await idsOf(admin)), new Set(all))
  const sorted = all.toSorted().reverse()
  assert.deepEqual(await idsOf(admin), sorted)
  for (const [query, expected] of Object.entries({
    [`edge_id=${edge.id}`]: [failed, onRoute, old],
    [`edge_id=${tcp.id}`]: [onTcp],
    [`route_id=${route.id}`]: [onRoute],
    'outcome=warned': [onRoute],
    'outcome=allowed': [],
    'source_ip=192.0.2.0/24': [onTcp, onRoute],
    'source_ip=192.0.2.1': [onRoute],
    'source_ip=2001:db8::/32': [old],
    'source_ip=::/0': [old],
    'status_class=5xx': [failed],
    'status_class=4xx': [old],
    [`since=${rfc3339(earlier + 1)}`]: [failed, onTcp, onRoute],
    [`until=${rfc3339(earlier + 1)}`]: [old],
    'since=0001-01-01T00:00:00Z&until=9999-12-31T23:59:59Z&outcome=failed': [failed],
  }))
    assert.deepEqual(
      await idsOf(admin, `?${query}`),
      expected
        .map(({ id }) => id)
        .toSorted()
        .reverse(),
      query,
    )
  const first = await admin('GET', '/requests?limit=3')
  const second = await admin('GET', first.body.next_page_uri)
  assert.deepEqual(
    [...first.body.requests, ...second.body.requests].map(({ id }) => id),
    sorted,
  )
  assert.equal(second.body.next_page_uri, null)
  for (const [query, field] of [
    ['source_ip=10.0.0.1/8', 'source_ip'],
    ['before_id=x', 'before_id'],
    ['since=yesterday', 'since'],
    ['outcome=odd', 'outcome'],
    ['status_class=6xx', 'status_class'],
  ] as const)
    assertRefused(await admin('GET', `/requests?${query}`), 400, 'ERR_INVALID_FIELD', field)
})

test('source addresses are for admins: others neither see them nor find them out with a filter', async () => {
  const admin = await plane.newAccount()
  const edge = await newHttpsEdge(admin)
  const sent = edgeRequest(admin, edge)
  assert.equal(await deliver([sent]), 'kept')
  const shownTo = async (as: Client) => [
    (await as('GET', '/requests')).body.requests[0].source_ip,
    (await as('GET', `/requests/${sent.id}`)).body.source_ip,
  ]
  assert.deepEqual(await shownTo(admin), ['192.0.2.1', '192.0.2.1'])
  for (const role of ['member', 'viewer'] as const) {
    const as = await newUser(plane, admin, role)
    assert.deepEqual(await shownTo(as), [null, null], role)
    for (const path of ['/requests', '/requests/stream'])
      assertRefused(await as('GET', `${path}?source_ip=192.0.2.0/25`), 403, 'ERR_FORBIDDEN')
  }
})

test('the operation id of a refused call of the API is resolved in the same place, for admins', async () => {
  const admin = await plane.newAccount()
  const member = await newUser(plane, admin)
  const { id } = await restrict(admin, {
    type: 'api',
    enforced: true,
    ip_policy_ids: [await policyWith(admin, 'allow 127.0.0.0/8')],
  })
  const refused = await member('GET', '/api_keys', undefined, from('192.0.2.9'))
  assertRefused(refused, 403, 'ERR_IP_REFUSED')
  const operationId = refused.body.details.operation_id
  const { body } = await poll(
    () => admin('GET', `/requests/${operationId}`),
    ({ status }) => status === 200,
  )
  assert.deepEqual(
    [body.id, body.operation, body.source_ip, body.status_code, body.ip_restriction.id, body.edge, body.node],
    [operationId, 'api_keys.list', '192.0.2.9', 403, id, null, null],
  )
  assert.equal((await admin('GET', body.ip_refusal.uri)).body.id, operationId)
  assertRefused(await member('GET', `/requests/${operationId}`), 403, 'ERR_FORBIDDEN')
  assertRefused(await (await plane.newAccount())('GET', `/requests/${operationId}`), 404, 'ERR_NOT_FOUND')
})
