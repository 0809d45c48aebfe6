// With many addresses a policy is read as a whole, and with few only the rules around each: both say the same.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { make } from '../harness/fixtures.ts'
import { policyWith, restrict } from '../harness/ip.ts'
import { sharedControlPlane } from '../harness/shared_control_plane.ts'

const plane = await sharedControlPlane({ after })

test('a test in a list has the same outcome and reason as by itself', async () => {
  const as = await plane.newAccount()
  const nested = await policyWith(
    as,
    'allow 10.0.0.0/8',
    'deny 10.1.0.0/16',
    'allow 10.1.2.0/24',
    'allow 2001:db8::/32',
  )
  const other = await policyWith(as, 'allow 192.0.2.0/24', 'allow 127.0.0.0/8', 'allow ::1')
  await restrict(as, { type: 'api', enforced: true, ip_policy_ids: [other, nested] })
  const addresses = ['10.0.0.1', '10.1.0.1', '10.1.2.3', '192.0.2.1', '203.0.113.1', '2001:db8::1', '2001:db9::1']
  for (const address of addresses)
    await make(as, '/access_tests?ignore_access_tests=true', { address, target: { type: 'api' }, expect: 'allowed' })
  const { access_tests } = (await as('GET', '/access_tests')).body
  for (const { id, outcome, reason } of access_tests) {
    const alone = (await as('GET', `/access_tests/${id}`)).body
    assert.deepEqual([outcome, reason], [alone.outcome, alone.reason])
  }
  assert.equal(new Set(access_tests.map(({ outcome }: { outcome: string }) => outcome)).size, 2)
})
