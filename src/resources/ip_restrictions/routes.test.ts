import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { from, policyWith } from '../../../test/harness/ip.ts'
import { loadScaledTimeout } from '../../../test/harness/load_scaled_timeout.ts'
import { poll } from '../../../test/harness/poll.ts'
import { sharedControlPlane } from '../../../test/harness/shared_control_plane.ts'

const plane = await sharedControlPlane({ after })

test('an enforced api restriction refuses every address that its policies do not allow', async () => {
  const admin = await plane.newAccount()
  const policy = await policyWith(admin, 'allow 127.0.0.0/8', 'allow 10.0.0.0/8', 'deny 10.1.0.0/16 # not these')
  const created = await admin('POST', '/ip_restrictions', { type: 'api', enforced: true, ip_policy_ids: [policy] })
  assert.equal(created.status, 201, created.text)
  assert.deepEqual(created.body.ip_policies, [{ id: policy, uri: `https://api.gatehouse.test/ip_policies/${policy}` }])
  assert.equal((await admin('GET', '/caller')).status, 200)
  assert.equal((await admin('GET', '/caller', undefined, from('10.2.3.4'))).status, 200)
  const refused = await admin('GET', '/caller', undefined, from('10.1.3.4'))
  assert.equal(refused.status, 403)
  assert.equal(refused.body.error_code, 'ERR_IP_REFUSED')
  assert.deepEqual(Object.keys(refused.body.details), ['operation_id'])
  assert.equal((await admin('GET', '/caller', undefined, from('11.1.3.4'))).status, 403)
  assert.equal((await admin('GET', '/caller', undefined, from('garbage'))).status, 403)

  const refusedAt = Date.now()
  const why = await poll(
    () => admin('GET', `/ip_refusals/${refused.body.details.operation_id}`),
    ({ status }) => status === 200,
  )
  const late = Date.now() - refusedAt
  assert.ok(late < loadScaledTimeout(2_500), `it could be looked up after ${late} ms`)
  assert.equal(why.body.source_ip, '10.1.3.4')
  const { body: rule } = await admin('GET', why.body.ip_policy_rule.uri)
  assert.equal(rule.cidr, '10.1.0.0/16')
})

test('an unenforced restriction warns, and shows who would have been refused', async () => {
  const admin = await plane.newAccount()
  const policy = await policyWith(admin, 'allow 10.0.0.0/8')
  const { body: restriction } = await admin('POST', '/ip_restrictions', { type: 'api', ip_policy_ids: [policy] })
  const warned = await admin('GET', '/caller', undefined, from('192.0.2.7'))
  assert.equal(warned.status, 200)
  assert.equal(warned.headers.get('service-warning'), `ip_restriction=${restriction.id}`)
  await admin('GET', '/caller', undefined, from('192.0.2.7'))
  assert.equal((await admin('GET', '/caller', undefined, from('10.0.0.1'))).headers.get('service-warning'), null)
  const { body } = await poll(
    () => admin('GET', `${restriction.uri}/warnings`, undefined, from('10.0.0.1')),
    ({ body: { warnings } }) => warnings[0]?.count === 2,
  )
  assert.deepEqual(
    body.warnings.map(({ source_ip, count }: { source_ip: string; count: number }) => [source_ip, count]),
    [['192.0.2.7', 2]],
  )
})

test('admins cannot lock themselves out by accident', async () => {
  const admin = await plane.newAccount()
  const policy = await policyWith(admin, 'allow 10.0.0.0/8')
  const create = { type: 'api', enforced: true, ip_policy_ids: [policy] }
  const refused = await admin('POST', '/ip_restrictions', create)
  assert.equal(refused.status, 409)
  assert.equal(refused.body.error_code, 'ERR_SELF_LOCKOUT')
  assert.equal((await admin('GET', '/ip_restrictions')).body.ip_restrictions.length, 0)
  assert.equal((await admin('POST', '/ip_restrictions?allow_self_lockout=true', create)).status, 201)
  assert.equal((await admin('GET', '/caller')).status, 403)
})

test('a policy in use cannot be deleted, and the answer names its users', async () => {
  const admin = await plane.newAccount()
  const policy = await policyWith(admin, 'allow 10.0.0.0/8')
  const { body: restriction } = await admin('POST', '/ip_restrictions', { type: 'agent', ip_policy_ids: [policy] })
  const refused = await admin('DELETE', `/ip_policies/${policy}`)
  assert.equal(refused.status, 409)
  assert.equal(refused.body.details.used_by, restriction.id)
  assert.equal((await admin('DELETE', restriction.uri)).status, 204)
  assert.equal((await admin('DELETE', `/ip_policies/${policy}`)).status, 204)
})

test('an account has at most 700 endpoints restrictions and attached policies together, however they are added', async () => {
  const admin = await plane.newAccount()
  const ids = await Promise.all(Array.from({ length: 100 }, () => policyWith(admin)))
  const restrict = (ip_policy_ids: unknown[]) => admin('POST', '/ip_restrictions', { type: 'endpoints', ip_policy_ids })
  for (let turn = 0; turn < 6; turn++) assert.equal((await restrict(ids)).status, 201)
  const { body: last } = await restrict(ids.slice(0, 93))
  const refused = [await restrict(ids.slice(0, 1)), await admin('PATCH', last.uri, { ip_policy_ids: ids.slice(0, 94) })]
  for (const { status, body } of refused) assert.deepEqual([status, body.error_code], [409, 'ERR_TOO_MANY'])
  assert.equal((await admin('PATCH', last.uri, { ip_policy_ids: ids.slice(0, 50) })).status, 200)
  assert.equal((await restrict(ids.slice(0, 1))).status, 201)
})

test('/ip_checks names what decided', async () => {
  const admin = await plane.newAccount()
  const policy = await policyWith(admin, 'allow 10.0.0.0/8', 'deny 10.1.0.0/16')
  await admin('POST', '/ip_restrictions', { type: 'agent', enforced: true, ip_policy_ids: [policy] })
  const check = async (ip: string) => (await admin('POST', '/ip_checks', { type: 'agent', ip })).body
  assert.equal((await check('10.2.0.1')).allowed, true)
  const denied = await check('::ffff:10.1.0.1')
  assert.equal(denied.allowed, false)
  assert.equal(denied.ip, '10.1.0.1')
  assert.equal((await admin('GET', denied.decided_by.ip_policy_rule.uri)).body.cidr, '10.1.0.0/16')
  assert.equal((await check('010.2.0.1')).allowed, false)
  assert.equal((await admin('POST', '/ip_checks', { type: 'dashboard', ip: 'x' })).body.allowed, false)
})
