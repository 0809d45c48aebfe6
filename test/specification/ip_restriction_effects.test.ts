import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Client } from '../harness/client.ts'
import { from, policyWith, restrict } from '../harness/ip.ts'
import { newBot, newUser } from '../harness/principals.ts'
import { sharedControlPlane } from '../harness/shared_control_plane.ts'

const plane = await sharedControlPlane({ after })
const inside = '10.0.0.7'
const outside = '192.0.2.7'
const self = 'allow 127.0.0.1'
const callFrom = (client: Client, ip: string) => client('GET', '/caller', undefined, from(ip))
const warningsOf = (answer: { headers: Pick<Headers, 'get'> }) => answer.headers.get('service-warning')

test('§1 enforced true: the restriction is enforced', async () => {
  const admin = await plane.newAccount()
  await restrict(admin, { enforced: true, ip_policy_ids: [await policyWith(admin, self, 'allow 10.0.0.0/8')] })
  assert.equal((await callFrom(admin, inside)).status, 200)
  const refused = await callFrom(admin, outside)
  assert.equal(refused.status, 403)
  assert.equal(refused.body.error_code, 'ERR_IP_REFUSED')
})

test('§1 enforced false: only warnings are issued', async () => {
  const admin = await plane.newAccount()
  const { id } = await restrict(admin, {
    enforced: false,
    ip_policy_ids: [await policyWith(admin, 'allow 10.0.0.0/8')],
  })
  const warned = await callFrom(admin, outside)
  assert.equal(warned.status, 200)
  assert.equal(warningsOf(warned), `ip_restriction=${id}`)
  assert.equal(warningsOf(await callFrom(admin, inside)), null)
})

test('§4.2 enforced can be switched by an update, in both directions, and holds from the next request on', async () => {
  const admin = await plane.newAccount()
  const { uri } = await restrict(admin, { ip_policy_ids: [await policyWith(admin, self)] })
  for (const [enforced, status] of [
    [true, 403],
    [false, 200],
    [true, 403],
  ] as const) {
    assert.equal((await admin('PATCH', uri, { enforced })).status, 200)
    assert.equal((await callFrom(admin, outside)).status, status)
  }
  await admin('DELETE', uri)
  assert.equal((await callFrom(admin, outside)).status, 200)
})

test('§4.2 the attached policies can be exchanged by an update, and hold from the next request on', async () => {
  const admin = await plane.newAccount()
  const [narrow, wide] = [await policyWith(admin, self), await policyWith(admin, self, 'allow 192.0.2.0/24')]
  const { uri } = await restrict(admin, { enforced: true, ip_policy_ids: [narrow] })
  assert.equal((await callFrom(admin, outside)).status, 403)
  await admin('PATCH', uri, { ip_policy_ids: [wide] })
  assert.equal((await callFrom(admin, outside)).status, 200)
})

test('contract: every attached policy counts, whichever place it has', async () => {
  const admin = await plane.newAccount()
  const policies = await Promise.all([
    policyWith(admin, self),
    policyWith(admin, 'allow 192.0.2.0/24'),
    policyWith(admin, 'deny 192.0.2.99'),
  ])
  const { uri } = await restrict(admin, { enforced: true, ip_policy_ids: policies })
  for (let turn = 0; turn < 3; turn++) {
    policies.push(policies.shift() as string)
    assert.equal((await admin('PATCH', uri, { ip_policy_ids: policies })).status, 200)
    assert.equal((await callFrom(admin, outside)).status, 200)
    assert.equal((await callFrom(admin, '192.0.2.99')).status, 403, 'any matching deny wins')
    assert.equal((await callFrom(admin, '198.51.100.1')).status, 403, 'what nothing allows is denied')
  }
})

test('contract: with several of one type, every enforced one must allow', async () => {
  const admin = await plane.newAccount()
  const office = await policyWith(admin, self, 'allow 10.0.0.0/8')
  const floor = await policyWith(admin, self, 'allow 10.0.0.0/24', 'allow 192.0.2.0/24')
  await restrict(admin, { enforced: true, ip_policy_ids: [office] })
  const { uri } = await restrict(admin, { enforced: true, ip_policy_ids: [floor] })
  assert.equal((await callFrom(admin, '10.0.0.1')).status, 200, 'both allow')
  assert.equal((await callFrom(admin, '10.0.1.1')).status, 403, 'only the first allows')
  assert.equal((await callFrom(admin, outside)).status, 403, 'only the second allows')
  await admin('DELETE', uri)
  assert.equal((await callFrom(admin, '10.0.1.1')).status, 200)
})

test('contract: a stricter set can be tried in warning mode beside the one in force', async () => {
  const admin = await plane.newAccount()
  await restrict(admin, { enforced: true, ip_policy_ids: [await policyWith(admin, self, 'allow 10.0.0.0/8')] })
  const stricter = await policyWith(admin, self, 'allow 10.0.0.0/24')
  const one = await restrict(admin, { ip_policy_ids: [stricter] })
  const other = await restrict(admin, { ip_policy_ids: [stricter] })
  assert.equal(warningsOf(await callFrom(admin, '10.0.0.1')), null)
  const warned = await callFrom(admin, '10.0.1.1')
  assert.equal(warned.status, 200)
  assert.equal(warningsOf(warned), `ip_restriction=${one.id}, ip_restriction=${other.id}`, 'each one warns')
})

test('contract: a warning restriction never weakens an enforced one, whichever is older', async () => {
  const admin = await plane.newAccount()
  const ip_policy_ids = [await policyWith(admin, self)]
  const older = await restrict(admin, { ip_policy_ids })
  const { uri } = await restrict(admin, { enforced: true, ip_policy_ids })
  assert.equal((await callFrom(admin, outside)).status, 403)
  await admin('PATCH', older.uri, { enforced: true })
  await admin('PATCH', uri, { enforced: false })
  assert.equal((await callFrom(admin, outside)).status, 403)
})

test('contract: only `api` restrictions restrict this API', async () => {
  const admin = await plane.newAccount()
  const denyAll = await policyWith(admin, 'deny 0.0.0.0/0')
  for (const type of ['dashboard', 'agent', 'endpoints'])
    await restrict(admin, { type, enforced: true, ip_policy_ids: [denyAll] })
  const answer = await callFrom(admin, outside)
  assert.equal(answer.status, 200)
  assert.equal(warningsOf(answer), null)
})

test('contract: POST /ip_checks decides each type by the restrictions of that type alone', async () => {
  const admin = await plane.newAccount()
  const types = ['dashboard', 'api', 'agent', 'endpoints']
  for (const [index, type] of types.entries()) {
    const policy = await policyWith(admin, self, `allow 10.${index}.0.0/16`)
    await restrict(admin, { type, enforced: true, ip_policy_ids: [policy] })
  }
  for (const [index, type] of types.entries()) {
    for (const other of types.keys()) {
      const { body } = await admin('POST', '/ip_checks', { type, ip: `10.${other}.0.1` })
      assert.equal(body.allowed, index === other, `${type} from 10.${other}.0.1`)
    }
  }
})

test('contract: POST /ip_checks names the restriction, the policy and the rule that decided, and changes nothing', async () => {
  const admin = await plane.newAccount()
  const policy = await policyWith(admin, 'allow 10.0.0.0/8', 'deny 10.1.0.0/16')
  const trial = await restrict(admin, { type: 'agent', ip_policy_ids: [policy] })
  const inForce = await restrict(admin, { type: 'agent', enforced: true, ip_policy_ids: [policy] })
  const { body: denied } = await admin('POST', '/ip_checks', { type: 'agent', ip: '10.1.0.1' })
  assert.equal(denied.allowed, false)
  assert.equal(denied.decided_by.ip_restriction.id, inForce.id)
  assert.equal(denied.decided_by.ip_policy.id, policy)
  assert.equal((await admin('GET', denied.decided_by.ip_policy_rule.uri)).body.cidr, '10.1.0.0/16')
  assert.equal(denied.restrictions.length, 2)
  await admin('DELETE', inForce.uri)
  const { body: warned } = await admin('POST', '/ip_checks', { type: 'agent', ip: '10.1.0.1' })
  assert.equal(warned.allowed, true, 'what only warns lets through')
  assert.equal(warned.decided_by, null)
  assert.match(warned.reason, new RegExp(trial.id))
  const { body: events } = await admin('GET', '/audit_events?operation=ip_checks.create')
  assert.deepEqual(events.audit_events, [])
})

test('contract: a refused call learns its operation id and nothing about the rules', async () => {
  const admin = await plane.newAccount()
  const policy = await policyWith(admin, self, 'deny 192.0.2.0/24 # secret reason')
  await restrict(admin, { enforced: true, ip_policy_ids: [policy], description: 'secret name' })
  const { body, headers, text } = await callFrom(admin, outside)
  assert.deepEqual(body.details, { operation_id: headers.get('operation-id') })
  assert.doesNotMatch(text, /secret|ipx_|ipp_|ipr_|192\.0\.2/)
})

test('contract: a call is refused before its body, path id or permission are checked', async () => {
  const admin = await plane.newAccount()
  await restrict(admin, { enforced: true, ip_policy_ids: [await policyWith(admin, self)] })
  const calls: [string, string, unknown][] = [
    ['POST', '/ip_restrictions', { nonsense: true }],
    ['GET', '/ip_restrictions/nonsense', undefined],
    ['DELETE', `/ip_policies/ipp_${'0'.repeat(26)}`, undefined],
    ['PUT', '/ip_policies/x/rules', { rules: 1 }],
  ]
  for (const [method, path, body] of calls)
    assert.equal((await admin(method, path, body, from(outside))).body.error_code, 'ERR_IP_REFUSED', path)
})

test("contract: an account's restrictions affect no other account", async () => {
  const [strict, other] = [await plane.newAccount(), await plane.newAccount()]
  await restrict(strict, { enforced: true, ip_policy_ids: [await policyWith(strict, self)] })
  assert.equal((await callFrom(strict, outside)).status, 403)
  assert.equal((await callFrom(other, outside)).status, 200)
})

test('contract: only admins write restrictions; members and bots may read them', async () => {
  const admin = await plane.newAccount()
  const policy = await policyWith(admin, self)
  const restriction = await restrict(admin, { type: 'agent', ip_policy_ids: [policy] })
  for (const person of [await newUser(plane, admin), await newBot(plane, admin)]) {
    const writes = [
      await person('POST', '/ip_restrictions', { type: 'agent', ip_policy_ids: [policy] }),
      await person('PATCH', restriction.uri, { enforced: true }),
      await person('DELETE', restriction.uri),
    ]
    for (const { status, body } of writes) assert.equal(`${status} ${body.error_code}`, '403 ERR_FORBIDDEN')
    assert.deepEqual((await person('GET', restriction.uri)).body, restriction)
    assert.equal((await person('GET', '/ip_restrictions')).body.ip_restrictions.length, 1)
  }
  assert.equal((await (await newUser(plane, admin, 'admin'))('DELETE', restriction.uri)).status, 204)
})
