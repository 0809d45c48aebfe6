// Changes that remove or add unusually much, on the command line: what it says, and what it takes to make them.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { exits } from '../../src/cli/exits.ts'
import { run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { startControlPlane } from '../harness/control_plane.ts'
import { make } from '../harness/fixtures.ts'
import { policyWith } from '../harness/ip.ts'
import { cliFor } from './harness.ts'
import { stateFile } from './state_harness.ts'

const plane = await startControlPlane({ after })
const lines = (count: number) => Array.from({ length: count }, (_, index) => `allow 10.0.${index}.0/24`)

test('replacing rules says what it would do, and takes --confirm', async () => {
  const admin = await plane.newAccount()
  const [cli, id] = [cliFor(plane, admin), await policyWith(admin, ...lines(30))]
  const file = await stateFile('allow 10.0.0.0/24\n')
  const replace = ['ip-policies', 'rules', 'replace', id, '--file', file]
  const tried = await cli([...replace, '--dry-run'])
  assert.match(
    tried.stdout,
    new RegExp(`Needs --confirm: it removes 29; there are 30 rules of ${id}, and there would be 1`),
  )
  const refused = await cli(replace)
  assert.equal(refused.code, exits.refused.code)
  assert.match(refused.stderr, /removes 29; there are 30 .*\n(.*\n)*.*repeat the command with --confirm/)
  assert.equal((await cli([...replace, '--confirm'])).code, exits.ok.code)
})

test('prune --yes takes --confirm as well', async () => {
  const admin = await plane.newAccount()
  const [cli, id] = [cliFor(plane, admin), await policyWith(admin, 'allow 10.0.0.0/8', ...lines(30))]
  const refused = await cli(['ip-policies', 'prune', id, '--yes'])
  assert.deepEqual([refused.code, /--confirm/.test(refused.stderr)], [exits.refused.code, true], refused.stderr)
  const done = await cli(['ip-policies', 'prune', id, '--yes', '--confirm'])
  assert.match(done.stderr, /Removed 30\. The policy has 1 rules now/)
})

const backends = (count: number) =>
  `gatehouse: 1\nbackends:${Array.from({ length: count }, (_, index) => `\n  b${index}: {address: 'b${index}.internal:80'}`).join('') || ' {}'}\n`

test('a state file is judged as one change, before anything is sent', async () => {
  const admin = await plane.newAccount()
  const cli = cliFor(plane, admin)
  const countOf = async () => (await admin('GET', '/backends/static')).body.backends.length
  const all = await stateFile(backends(42))
  assert.equal((await cli(['state', 'apply', all])).code, exits.ok.code, 'nothing was there before')
  const few = await stateFile(backends(20))
  const tried = await cli(['state', 'sync', few, '--dry-run'])
  const numbers = /removes 22; there are 42 edges, routes and backends of the account, and there would be 20/
  assert.match(tried.stderr, numbers)
  assert.match(tried.stderr, /22 changes, and --confirm/)
  const refused = await cli(['state', 'sync', few, '--yes'])
  assert.equal(refused.code, exits.refused.code)
  assert.match(refused.stderr, numbers)
  assert.match(refused.stderr, /add --confirm/)
  assert.equal(await countOf(), 42)
  const half = await cli(['state', 'sync', await stateFile(backends(21)), '--yes'])
  assert.equal(half.code, exits.ok.code, half.stderr)
  const rest = await cli(['state', 'sync', await stateFile(backends(0)), '--yes', '--confirm'])
  assert.equal(rest.code, exits.ok.code, rest.stderr)
  assert.equal(await countOf(), 0)
})

test('rules in a state file are judged as the service judges them', async () => {
  const admin = await plane.newAccount()
  const [cli, id] = [cliFor(plane, admin), await policyWith(admin, ...lines(45))]
  await run(plane.db, sql`update ip_policies set description = 'office'`)
  await make(admin, '/ip_restrictions', { type: 'agent', ip_policy_ids: [id] })
  // It removes 15 of 45 and then adds 21 to the 30 that are left.
  const rules = [...lines(30), ...Array.from({ length: 21 }, (_, index) => `allow 172.16.${index}.0/24`)]
  const file = await stateFile(
    `gatehouse: 1\nip_policies:\n  office: {description: office, rules: [${rules.join(', ')}]}\n`,
  )
  // One by one, it narrows the policy in use first, so it is another change.
  const refused = await cli(['state', 'apply', file, '--one-by-one'])
  assert.equal(refused.code, exits.refused.code, refused.stderr)
  assert.match(refused.stderr, new RegExp(`adds 21; there are 30 rules of ${id}, and there would be 51`))
  assert.equal((await admin('GET', `/ip_policies/${id}/rules`)).body.rules.length, 45, 'nothing was sent')
  assert.equal((await cli(['state', 'apply', file])).code, exits.ok.code)
  const few = await stateFile(
    `gatehouse: 1\nip_policies:\n  office: {description: office, rules: [${lines(25).join(', ')}]}\n`,
  )
  const tooFew = await cli(['state', 'apply', few])
  assert.equal(tooFew.code, exits.refused.code, tooFew.stderr)
  assert.match(tooFew.stderr, new RegExp(`removes 26; there are 51 rules of ${id}, and there would be 25`))
  const done = await cli(['state', 'apply', few, '--confirm'])
  assert.equal(done.code, exits.ok.code, done.stderr)
  const [event] = (await admin('GET', `/audit_events?resource_id=${id}`)).body.audit_events
  const [applied] = (await admin('GET', '/audit_events?operation=change_sets.apply')).body.audit_events
  assert.deepEqual([event.after.removed, applied.after.confirmed], [26, true])
})
