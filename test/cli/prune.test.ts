import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { exits } from '../../src/cli/exits.ts'
import { run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { type Id, toUuid } from '../../src/kernel/ids.ts'
import type { Client } from '../harness/client.ts'
import { startControlPlane } from '../harness/control_plane.ts'
import { policyWith } from '../harness/ip.ts'
import { newUser } from '../harness/principals.ts'
import { cliFor } from './harness.ts'

const plane = await startControlPlane({ after })
const admin = await plane.newAccount()
const rangesOf = async (as: Client, policy: string): Promise<string[]> =>
  (await as('GET', `/ip_policies/${policy}/rules`)).body.rules.map(({ cidr }: { cidr: string }) => cidr).sort()

/** As if the rules had been counted for that many days. */
async function age(policy: string, days: number): Promise<void> {
  const began = sql`now() - ${days}::int * interval '1 day'`
  await run(plane.db, sql`update ip_rule_counting set began_at = ${began}`)
  await run(
    plane.db,
    sql`update ip_policy_rules set created_at = ${began} where ip_policy_id = ${toUuid(policy as Id<'ipp'>)}`,
  )
}

test('prune shows what is covered and its effect, removes nothing unasked, and removes it with --yes in one change', async () => {
  const policy = await policyWith(
    admin,
    'allow 10.0.0.0/8',
    'allow 10.1.0.0/16 # inside',
    'allow 192.0.2.7 # shut',
    'deny 192.0.2.0/24',
    'allow 198.51.100.0/24',
  )
  const cli = cliFor(plane, admin)
  const shown = await cli(['ip-policies', 'prune', policy])
  assert.equal(shown.code, exits.ok.code, shown.stderr)
  assert.match(shown.stdout, /10\.1\.0\.0\/16\s+redundant/)
  assert.match(shown.stdout, /192\.0\.2\.7\/32\s+shadowed/)
  assert.ok(!shown.stdout.includes('198.51.100.0/24'))
  assert.match(shown.stderr, /No known address of the last week is affected/)
  assert.match(shown.stderr, /Nothing was removed/)
  assert.equal((await rangesOf(admin, policy)).length, 5)
  const before = (await admin('GET', `/audit_events?resource_id=${policy}`)).body.audit_events.length
  const removed = await cli(['ip-policies', 'prune', policy, '--covered', '--yes'])
  assert.equal(removed.code, exits.ok.code, removed.stderr)
  assert.match(removed.stderr, /Removed 2\. The policy has 3 rules now\./)
  assert.deepEqual(await rangesOf(admin, policy), ['10.0.0.0/8', '192.0.2.0/24', '198.51.100.0/24'])
  const events = (await admin('GET', `/audit_events?resource_id=${policy}`)).body.audit_events
  assert.deepEqual([events.length - before, events[0].operation], [1, 'ip_policies.remove_rules'])
  assert.match((await cli(['ip-policies', 'prune', policy])).stderr, /nothing to remove/)
})

test('prune removes what has been counted for long enough and never decided', async () => {
  const policy = await policyWith(admin, 'allow 10.0.0.0/8', 'allow 10.1.0.0/16')
  const cli = cliFor(plane, admin)
  assert.match(
    (await cli(['ip-policies', 'prune', policy, '--unused-days', '30', '--yes'])).stderr,
    /nothing to remove/,
  )
  await age(policy, 40)
  const { stdout } = await cli(['ip-policies', 'prune', policy, '--unused-days', '30'])
  assert.match(stdout, /10\.0\.0\.0\/8/)
  assert.equal((await rangesOf(admin, policy)).length, 2)
  await cli.ok(['ip-policies', 'prune', policy, '--unused-days', '30', '--yes'])
  assert.deepEqual(await rangesOf(admin, policy), [])
})

test('prune refuses unknown arguments, policies of other accounts, and viewers', async () => {
  const policy = await policyWith(admin, 'allow 10.0.0.0/8', 'allow 10.1.0.0/16')
  const cli = cliFor(plane, admin)
  for (const args of [[], [policy, 'more'], [policy, '--unused-days', 'x'], [policy, '--sideways']])
    assert.equal((await cli(['ip-policies', 'prune', ...args])).code, exits.usage.code)
  assert.match(await cli.ok(['ip-policies', 'prune', '--help']), /--unused-days/)
  const stranger = cliFor(plane, await plane.newAccount())
  assert.equal((await stranger(['ip-policies', 'prune', policy, '--yes'])).code, exits.notFound.code)
  const viewer = cliFor(plane, await newUser(plane, admin, 'viewer'))
  assert.equal((await viewer(['ip-policies', 'prune', policy, '--yes'])).code, exits.notAllowed.code)
  assert.equal((await rangesOf(admin, policy)).length, 2)
})
