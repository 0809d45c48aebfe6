import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { assertRefused, newHttpsEdge, newRoute, newTcpEdge, refOf } from '../../../test/harness/fixtures.ts'
import { policyWith, putRules, restrict } from '../../../test/harness/ip.ts'
import { sharedControlPlane } from '../../../test/harness/shared_control_plane.ts'

const plane = await sharedControlPlane({ after })
const admin = await plane.newAccount()
const check = (body: object) => admin('POST', '/ip_checks', body)
const policyUri = (id: string) => `https://api.gatehouse.test/ip_policies/${id}`

type Policy = { ip_policy: { id: string }; action: string | null; cidr: string | null; ip_policy_rule: { uri: string } }
type Step = {
  by: string
  enforced: boolean
  allowed: boolean
  policies: Policy[]
  target: object
  ip_restriction: object
}
/** A step as 'module: deny 10.1.0.0/16, none → refused'. */
const drawn = ({ by, enforced, allowed, policies }: Step) =>
  `${by}${enforced ? '' : ' (warning)'}: ${policies
    .map(({ action, cidr }) => (action ? `${action} ${cidr}` : 'none'))
    .join(', ')} → ${allowed ? 'allowed' : 'refused'}`

test('the steps are complete: the module, every restriction, their policies, and the matching rule of each', async () => {
  const account = await plane.newAccount()
  const ask = async (body: object) => (await account('POST', '/ip_checks', body)).body
  const [first, second, third] = [
    await policyWith(account, 'allow 10.0.0.0/8', 'allow 10.1.0.0/16', 'allow 11.0.0.0/8'),
    await policyWith(account, 'deny 10.1.2.0/24'),
    await policyWith(account, 'allow 10.0.0.0/8'),
  ]
  const edge = await newTcpEdge(account, { ip_restriction: { ip_policy_ids: [first, second] } })
  const inForce = await restrict(account, { type: 'endpoints', enforced: true, ip_policy_ids: [third] })
  await restrict(account, { type: 'endpoints', ip_policy_ids: [second] })

  const let_in = await ask({ ip: '10.1.0.1', edge_id: edge.id })
  assert.deepEqual(
    [let_in.type, let_in.allowed, ...let_in.steps.map(drawn)],
    [
      'endpoints',
      true,
      'module: allow 10.1.0.0/16, none → allowed',
      'restriction: allow 10.0.0.0/8 → allowed',
      'restriction (warning): none → refused',
    ],
  )
  const [module, restriction] = let_in.steps
  assert.deepEqual([module.target, module.ip_restriction], [refOf(edge), null])
  assert.deepEqual([restriction.target, restriction.ip_restriction], [null, refOf(inForce)])
  assert.deepEqual(module.policies[0].ip_policy, { id: first, uri: policyUri(first) })
  assert.equal((await account('GET', module.policies[0].ip_policy_rule.uri)).body.cidr, '10.1.0.0/16')
  assert.match(let_in.reason, /with a warning/)

  const denied = await ask({ ip: '10.1.2.3', edge_id: edge.id, type: 'endpoints' })
  assert.deepEqual(
    [denied.allowed, drawn(denied.steps[0])],
    [false, 'module: allow 10.1.0.0/16, deny 10.1.2.0/24 → refused'],
  )
  assert.equal(denied.reason, `${edge.id} refuses it by the rule ${denied.steps[0].policies[1].ip_policy_rule.id}.`)
  assert.equal(denied.decided_by, null, 'no restriction refuses it')

  const byAccount = await ask({ ip: '11.0.0.1', edge_id: edge.id })
  assert.deepEqual([byAccount.allowed, byAccount.decided_by.ip_restriction.id], [false, inForce.id])
  assert.equal(byAccount.steps[0].allowed, true)

  const unreadable = await ask({ ip: '10.1.0.1 ', edge_id: edge.id })
  assert.deepEqual([unreadable.allowed, drawn(unreadable.steps[0])], [false, 'module: none, none → refused'])
  assert.equal(
    (await ask({ ip: '11.0.0.1', type: 'endpoints' })).steps.length,
    2,
    'without an edge, without its module',
  )
})

test('a change to the module, its policies or their rules shows in the next check', async () => {
  const policy = await policyWith(admin, 'allow 10.0.0.0/8')
  const route = await newRoute(admin, { ip_restriction: { ip_policy_ids: [policy] } })
  const allowed = async () => (await check({ ip: '10.0.0.1', route_id: route.id, edge_id: route.edge_id })).body.allowed
  assert.equal(await allowed(), true)
  await putRules(admin, policy, ['deny 10.0.0.1'])
  assert.equal(await allowed(), false)
  await admin('PUT', `${route.uri}/ip_restriction`, { enabled: false, ip_policy_ids: [policy] })
  assert.equal(await allowed(), true)
  await admin('PUT', `${route.uri}/ip_restriction`, { ip_policy_ids: [policy] })
  assert.equal(await allowed(), false)
  await admin('DELETE', `${route.uri}/ip_restriction`)
  assert.equal(await allowed(), true)
})

test('contradictory check parameters are refused', async () => {
  const [tcp, https, route] = [await newTcpEdge(admin), await newHttpsEdge(admin), await newRoute(admin)]
  const ip = '10.0.0.1'
  const invalid = async (body: object, field: string) =>
    assertRefused(await check(body), 400, 'ERR_INVALID_FIELD', field)
  await invalid({ ip }, 'type')
  await invalid({ ip, type: 'api', edge_id: tcp.id }, 'type')
  await invalid({ ip, type: 'agent', route_id: route.id }, 'type')
  await invalid({ ip, edge_id: https.id }, 'route_id')
  await invalid({ ip, edge_id: https.id, route_id: route.id }, 'route_id')
  await invalid({ ip, edge_id: tcp.id, route_id: route.id }, 'route_id')
  await invalid({ ip, edge_id: route.id }, 'edge_id')
  for (const body of [{ edge_id: tcp.id }, { route_id: route.id }, { edge_id: route.edge_id, route_id: route.id }])
    assert.equal((await check({ ip, ...body })).body.allowed, true)
})
