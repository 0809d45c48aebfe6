import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Account } from '../../../test/harness/control_plane.ts'
import { assertRefused, make, newHttpsEdge, newRoute, newTcpEdge } from '../../../test/harness/fixtures.ts'
import { policyWith, putRules, restrict } from '../../../test/harness/ip.ts'
import { poll } from '../../../test/harness/poll.ts'
import { newUser } from '../../../test/harness/principals.ts'
import { sharedControlPlane } from '../../../test/harness/shared_control_plane.ts'

type Event = { operation: string; operation_id: string; after: { ignored_access_tests?: boolean } }
const plane = await sharedControlPlane({ after })
const [inside, outside] = ['10.0.0.1', '203.0.113.7']
const tested = (as: Account, target: object, expect: string, address = outside, more: object = {}) =>
  make(as, '/access_tests', { address, target, expect, ...more })
const resultOf = async (as: Account, { id }: { id: string }) => (await as('GET', `/access_tests/${id}`)).body

/** A restriction of the API that shuts out `outside`, and keeps the caller in. */
async function restrictedApi(as: Account) {
  const { source_ip } = (await as('GET', '/caller')).body
  const policy = await policyWith(as, `allow ${source_ip}`, 'allow 10.0.0.0/8')
  return { policy, restriction: await restrict(as, { type: 'api', enforced: true, ip_policy_ids: [policy] }) }
}

test('a change that breaks an access test is refused, says which and why, and changes nothing', async () => {
  const admin = await plane.newAccount()
  const { policy } = await restrictedApi(admin)
  const made = await tested(admin, { type: 'api' }, 'refused', outside, { description: 'a stranger' })
  assert.deepEqual(
    [made.result, made.outcome, made.target, made.expect],
    ['passed', 'refused', { type: 'api' }, 'refused'],
  )
  const refused = await admin('POST', '/ip_policy_rules', {
    ip_policy_id: policy,
    cidr: '203.0.113.0/24',
    action: 'allow',
  })
  assertRefused(refused, 409, 'ERR_ACCESS_TEST_FAILED')
  assert.equal(refused.body.details.access_tests, made.id)
  assert.match(
    refused.body.msg,
    new RegExp(
      `This would fail an access test\\. ${made.id} \\(a stranger\\): 203\\.0\\.113\\.7 must be refused by the API, and would be allowed: allowed by ipx_\\w+ by the rule ipr_\\w+\\.`,
    ),
  )
  assert.equal((await admin('GET', `/ip_policies/${policy}/rules`)).body.rules.length, 2)
  const dry = await admin('POST', '/ip_policy_rules?dry_run=true', {
    ip_policy_id: policy,
    cidr: '203.0.113.0/24',
    action: 'allow',
  })
  assert.equal(dry.status, 200, dry.text)
  const [{ reason, ...failed }] = dry.body.failed_access_tests
  assert.deepEqual(failed, {
    id: made.id,
    description: 'a stranger',
    address: outside,
    target: { type: 'api' },
    expect: 'refused',
    outcome: 'allowed',
  })
  assert.match(reason, /^allowed by ipx_/)
  assert.equal((await admin('DELETE', `/access_tests/${made.id}`)).status, 204)
  await make(admin, '/ip_policy_rules', { ip_policy_id: policy, cidr: '203.0.113.0/24', action: 'allow' })
})

test('an admin can ignore access tests, which the audit shows; a member cannot', async () => {
  const admin = await plane.newAccount()
  const member = await newUser(plane, admin)
  const policy = await policyWith(admin, 'allow 10.0.0.0/8')
  const edge = await newTcpEdge(admin, { ip_restriction: { ip_policy_ids: [policy] } })
  const made = await tested(admin, { type: 'edge', edge_id: edge.id }, 'refused')
  const change = `${edge.uri}/ip_restriction`
  assertRefused(await member('DELETE', change), 409, 'ERR_ACCESS_TEST_FAILED')
  assertRefused(await member('DELETE', `${change}?ignore_access_tests=true`), 403, 'ERR_FORBIDDEN')
  assert.equal((await resultOf(admin, made)).result, 'passed')
  const done = await admin('DELETE', `${change}?ignore_access_tests=true`)
  assert.equal(done.status, 204, done.text)
  const { result, outcome, reason } = await resultOf(admin, made)
  assert.deepEqual([result, outcome, reason], ['failed', 'allowed', 'nothing restricts it'])
  const events = (await admin('GET', `/audit_events?resource_id=${made.id}`)).body.audit_events
  assert.deepEqual(
    events.map(({ operation, operation_id, after: shown }: Event) => [
      operation,
      operation_id,
      shown.ignored_access_tests,
    ])[0],
    ['tcp_edges.ip_restriction.delete', done.headers.get('operation-id'), true],
  )
  // It failed before, so it stands in no other change's way.
  assert.equal((await member('PUT', change, { ip_policy_ids: [policy], enabled: false })).status, 200)
})

test('a test that fails is not created, unless an admin says so; an update of one that fails is accepted', async () => {
  const admin = await plane.newAccount()
  const body = { address: outside, target: { type: 'dashboard' }, expect: 'refused' }
  const refused = await admin('POST', '/access_tests', body)
  assertRefused(refused, 409, 'ERR_ACCESS_TEST_FAILED')
  assert.deepEqual((await admin('GET', '/access_tests')).body.access_tests, [])
  const made = await admin('POST', '/access_tests?ignore_access_tests=true', body)
  assert.equal(made.status, 201, made.text)
  assert.equal(made.body.result, 'failed')
  assert.equal((await admin('PATCH', made.body.uri, { description: 'wanted' })).body.result, 'failed')
  assert.equal((await admin('PATCH', made.body.uri, { expect: 'allowed' })).body.result, 'passed')
  assertRefused(await admin('PATCH', made.body.uri, { expect: 'refused' }), 409, 'ERR_ACCESS_TEST_FAILED')
  const shown = await resultOf(admin, made.body)
  assert.equal((await admin('PATCH', made.body.uri, { ...shown, result: 'failed' })).status, 200, 'results change')
})

test('a change is judged as a whole: a change set that breaks a test on its way, and not at its end, is applied', async () => {
  const admin = await plane.newAccount()
  const { policy, restriction } = await restrictedApi(admin)
  const made = await tested(admin, { type: 'api' }, 'refused')
  const drafted = async (...changes: object[]) => (await make(admin, '/change_sets', { changes })).uri
  const open = { operation: 'ip_restrictions.update', parameters: { id: restriction.id }, body: { enforced: false } }
  const shut = { operation: 'ip_restrictions.update', parameters: { id: restriction.id }, body: { enforced: true } }
  const passing = await drafted(open, shut)
  assert.deepEqual((await admin('POST', `${passing}/preview`, {})).body.failed_access_tests, [])
  assert.equal((await admin('POST', `${passing}/apply`, {})).status, 200)
  const breaking = await drafted(open)
  assert.deepEqual(
    (await admin('POST', `${breaking}/preview`, {})).body.failed_access_tests.map(({ id }: { id: string }) => id),
    [made.id],
  )
  const dry = await admin('POST', `${breaking}/apply?dry_run=true`, {})
  assert.deepEqual([dry.status, dry.body.failed_access_tests?.[0]?.id], [200, made.id], dry.text)
  assertRefused(await admin('POST', `${breaking}/apply`, {}), 409, 'ERR_ACCESS_TEST_FAILED')
  assert.equal((await admin('POST', `${breaking}/apply?ignore_access_tests=true`, {})).status, 200)
  assert.equal((await resultOf(admin, made)).result, 'failed')
  await putRules(admin, policy, [])
})

test('an edge or route with a test is not deleted, or its tests go with it', async () => {
  const admin = await plane.newAccount()
  const policy = await policyWith(admin, 'allow 10.0.0.0/8')
  const edge = await newHttpsEdge(admin)
  const route = await newRoute(admin, { match: '/a', ip_restriction: { ip_policy_ids: [policy] } }, edge)
  const made = await tested(admin, { type: 'route', route_id: route.id, path: '/a/b' }, 'refused')
  const failing = await admin('POST', '/access_tests?ignore_access_tests=true', {
    ...{ address: inside, target: { type: 'route', route_id: route.id, path: '/a' }, expect: 'refused' },
  })
  for (const uri of [route.uri, edge.uri]) {
    const refused = await admin('DELETE', uri)
    assertRefused(refused, 409, 'ERR_ACCESS_TEST_FAILED')
    assert.equal(refused.body.details.access_tests, `${made.id}, ${failing.body.id}`)
    assert.match(refused.body.msg, /cannot be decided: the edge or route that it is about is deleted/)
  }
  assert.equal((await admin('DELETE', `${edge.uri}?ignore_access_tests=true`)).status, 204)
  assert.deepEqual((await admin('GET', '/access_tests')).body.access_tests, [])
})

test('a route test follows the path to the route that it belongs to', async () => {
  const admin = await plane.newAccount()
  const policy = await policyWith(admin, 'allow 10.0.0.0/8')
  const edge = await newHttpsEdge(admin)
  const module = { ip_restriction: { ip_policy_ids: [policy] } }
  const route = await newRoute(admin, { match: '/a', ...module }, edge)
  const made = await tested(admin, { type: 'route', route_id: route.id, path: '/a/b/c' }, 'refused')
  const routes = `${edge.uri}/routes`
  const closer = { match_type: 'path_prefix', match: '/a/b' }
  assertRefused(await admin('POST', routes, closer), 409, 'ERR_ACCESS_TEST_FAILED')
  // The policies of /a/B decide about /a/b too.
  const guarding = await make(admin, routes, { ...closer, match: '/a/B', ...module })
  await make(admin, routes, closer)
  assertRefused(await admin('PATCH', guarding.uri, { path_variants: 'ignore' }), 409, 'ERR_ACCESS_TEST_FAILED')
  assertRefused(await admin('DELETE', guarding.uri), 409, 'ERR_ACCESS_TEST_FAILED')
  assert.match((await resultOf(admin, made)).reason, new RegExp(`^${guarding.id} refuses it`))
  const elsewhere = await admin('PATCH', route.uri, { match: '/z' })
  assert.equal(elsewhere.status, 200, elsewhere.text)
})

test('a rule that expires makes a test fail, and then it is in the way of nothing', async () => {
  const admin = await plane.newAccount()
  const policy = await policyWith(admin)
  const edge = await newTcpEdge(admin, { ip_restriction: { ip_policy_ids: [policy] } })
  const rule = await make(admin, '/ip_policy_rules', {
    ...{ ip_policy_id: policy, cidr: outside, action: 'allow', expires_at: new Date(Date.now() + 2_000).toISOString() },
  })
  const made = await tested(admin, { type: 'edge', edge_id: edge.id }, 'allowed')
  assertRefused(await admin('DELETE', rule.uri), 409, 'ERR_ACCESS_TEST_FAILED')
  await poll(
    async () => (await resultOf(admin, made)).result,
    (result) => result === 'failed',
  )
  assert.equal((await admin('DELETE', rule.uri)).status, 204)
})

test('two changes at once that are fine alone do not break a test together', async () => {
  const admin = await plane.newAccount()
  for (let round = 0; round < 15; round++) {
    const policy = await policyWith(admin, 'allow 10.0.0.0/8')
    const [restriction, edge] = await Promise.all([
      restrict(admin, { type: 'endpoints', enforced: true, ip_policy_ids: [policy] }),
      newTcpEdge(admin, { ip_restriction: { ip_policy_ids: [policy] } }),
    ])
    const target = { type: 'edge', edge_id: edge.id }
    const create = () => admin('POST', '/access_tests', { address: outside, target, expect: 'refused' })
    const isNew = round % 3 === 2
    if (!isNew) await tested(admin, target, 'refused')
    const answers = await Promise.all([
      admin('DELETE', restriction.uri),
      admin('DELETE', `${edge.uri}/ip_restriction`),
      ...(isNew ? [create()] : []),
    ])
    const results = (await admin('GET', '/access_tests')).body.access_tests.map(
      ({ result }: { result: string }) => result,
    )
    assert.ok(
      results.every((result: string) => result === 'passed'),
      `${round}: ${answers.map(({ status }) => status)} ${results}`,
    )
    for (const { id } of (await admin('GET', '/access_tests')).body.access_tests)
      await admin('DELETE', `/access_tests/${id}`)
    await admin('DELETE', restriction.uri)
  }
})

test('targets and filters', async () => {
  const admin = await plane.newAccount()
  const other = await plane.newAccount()
  const [edge, https, route] = [
    await newTcpEdge(admin),
    await newHttpsEdge(admin),
    await newRoute(admin, { match: '/' }),
  ]
  const foreign = await newTcpEdge(other)
  const post = (target: object, address = inside) =>
    admin('POST', '/access_tests', { address, target, expect: 'allowed' })
  const invalid: [object, string][] = [
    [{ type: 'edge' }, 'target.edge_id'],
    [{ type: 'edge', edge_id: https.id }, 'target.edge_id'],
    [{ type: 'edge', edge_id: foreign.id }, 'target.edge_id'],
    [{ type: 'api', edge_id: edge.id }, 'target.edge_id'],
    [{ type: 'route', route_id: route.id }, 'target.path'],
    [{ type: 'route', path: '/' }, 'target.route_id'],
    [{ type: 'route', route_id: route.id, path: '/%61' }, 'target.path'],
    [{ type: 'route', route_id: route.id, path: '/a/../b' }, 'target.path'],
  ]
  for (const [target, field] of invalid) assertRefused(await post(target), 400, 'ERR_INVALID_FIELD', field)
  assertRefused(await post({ type: 'api' }, '10.0.0.0/8'), 400, 'ERR_INVALID_FIELD', 'address')
  const one = (await post({ type: 'edge', edge_id: edge.id }, '::ffff:10.0.0.1')).body
  assert.equal(one.address, inside)
  const two = (await post({ type: 'route', route_id: route.id, path: '/x' }, '2001:DB8::1')).body
  const found = async (query: string) =>
    (await admin('GET', `/access_tests?${query}`)).body.access_tests.map(({ id }: { id: string }) => id)
  assert.deepEqual(await found('type=edge'), [one.id])
  assert.deepEqual(await found(`edge_id=${edge.id}`), [one.id])
  assert.deepEqual(await found(`route_id=${route.id}`), [two.id])
  assert.deepEqual(await found('address=2001:db8::1'), [two.id])
  assert.deepEqual(await found('address=nonsense'), [])
  assert.deepEqual(await found('expect=allowed'), [two.id, one.id])
})
