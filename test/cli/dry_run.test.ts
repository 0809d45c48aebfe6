// `--dry-run` on commands that change something: the differences in words, and nothing changed.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { writeOutcomes } from '../../src/access/evidence/address_outcomes.ts'
import { exits } from '../../src/cli/exits.ts'
import { operations } from '../../src/cli/operations.ts'
import { toUuid } from '../../src/kernel/ids.ts'
import { make } from '../harness/fixtures.ts'
import { policyWith } from '../harness/ip.ts'
import { sharedControlPlane } from '../harness/shared_control_plane.ts'
import { cliFor } from './harness.ts'

const plane = await sharedControlPlane({ after })
const admin = await plane.newAccount()
const cli = cliFor(plane, admin)

test('every command of an operation that changes something has the flag', () => {
  const onlyAsk = ['change_sets.preview', 'ip_checks.create', 'ip_policies.impact']
  for (const { id, method, flags } of operations)
    assert.equal(
      flags.some(({ name }) => name === 'dry-run'),
      method !== 'GET' && !onlyAsk.includes(id),
      id,
    )
})

test('a dry run prints what would be created, changed and deleted, and does none of it', async () => {
  const policy = await make(admin, '/ip_policies', { description: 'office' })
  const events = async () => (await admin('GET', '/audit_events')).body.audit_events.length
  const before = await events()
  const said = 'This was a dry run: nothing was changed.\n'

  const created = await cli(['api-keys', 'create', '--description', 'nightly', '--dry-run'])
  assert.match(created.stdout, /^\+ new API key\n(.*\n)* {4}description: nightly\n/)
  assert.doesNotMatch(created.stdout + created.stderr, /token/)
  assert.equal(created.stderr, said)

  const changed = await cli(['ip-policies', 'update', policy.id, '--description', 'branch', '--dry-run'])
  assert.equal(changed.stdout, `~ IP policy ${policy.id}\n    description: office → branch\n`)

  const deleted = await cli(['ip-policies', 'delete', policy.id, '--dry-run'])
  assert.equal(deleted.stdout, `- IP policy ${policy.id}\n`)
  assert.equal(await cli.ok(['ip-policies', 'update', policy.id, '--dry-run']), 'Nothing would change.\n')

  const whole = await cli.json(['ip-policies', 'update', policy.id, '--description', 'branch', '--dry-run'])
  assert.equal(whole.response.description, 'branch')
  assert.equal(whole.differences[0].resource, policy.id)
  assert.equal(await events(), before)
})

test('a module that would be set belongs to its edge', async () => {
  const [edge, policy] = [await make(admin, '/edges/tcp', {}), await make(admin, '/ip_policies', {})]
  const args = ['edges', 'tcp', 'ip-restriction', 'replace', edge.id, '--ip-policy-ids', policy.id, '--dry-run']
  const shown = await cli.ok([...args, '--wait', 'applied'])
  assert.match(shown, new RegExp(`^~ TCP edge ${edge.id}\n    ip_restriction: .*${policy.id}`))
})

test('a change that would be refused fails as the change does', async () => {
  const policy = await make(admin, '/ip_policies', {})
  await make(admin, '/ip_restrictions', { type: 'agent', ip_policy_ids: [policy.id] })
  const { code, stderr } = await cli(['ip-policies', 'delete', policy.id, '--dry-run'])
  assert.deepEqual([code, /ERR_IP_POLICY_IN_USE/.test(stderr)], [exits.refused.code, true])
})

test('edit and prune have the flag, too', async () => {
  const policy = await policyWith(admin, 'allow 10.0.0.0/8', 'allow 10.1.0.0/16')
  await admin('PATCH', `/ip_policies/${policy}`, { description: 'theirs' })
  const env = { VISUAL: 'sed -i s/theirs/mine/' }
  const edited = await cli(['ip-policies', 'edit', policy, '--dry-run'], { env })
  assert.match(edited.stdout, new RegExp(`^~ IP policy ${policy}\n    description: theirs → mine\n`), edited.stderr)
  const pruned = await cli(['ip-policies', 'prune', policy, '--dry-run', '--yes'])
  assert.match(pruned.stdout, /10\.1\.0\.0\/16/)
  assert.match(pruned.stderr, /dry run: nothing was removed/)
  const { body } = await admin('GET', `/ip_policies/${policy}`)
  assert.equal(body.description, 'theirs')
  assert.equal((await admin('GET', `/ip_policies/${policy}/rules`)).body.rules.length, 2)
})

test('undoing an event prints what it would do and the command that does it, and does nothing itself', async () => {
  const policy = await make(admin, '/ip_policies', { description: 'office' })
  await cli.ok(['ip-policies', 'update', policy.id, '--description', 'branch'])
  const [event] = (await admin('GET', `/audit_events?resource_id=${policy.id}`)).body.audit_events
  const { stdout, stderr } = await cli(['audit-events', 'revert', event.id])
  assert.match(stdout, new RegExp(`^~ IP policy ${policy.id}\n    description: branch → office\n$`))
  const command = /^ {2}gatehouse (change-sets apply chs_\w+)$/m.exec(stderr)?.[1] ?? assert.fail(stderr)
  assert.equal((await admin('GET', policy.uri)).body.description, 'branch')
  await cli.ok(command.split(' '))
  assert.equal((await admin('GET', policy.uri)).body.description, 'office')
  const [, , set = ''] = command.split(' ')
  assert.equal((await cli.json(['change-sets', 'revert', set])).reverts_id, set)
})

test('a change set is applied for a limited time, and confirmed', async () => {
  const { id } = await make(admin, '/change_sets', { changes: [{ operation: 'ip_policies.create' }] })
  const usage = await cli(['change-sets', 'apply', id, '--confirm-within', 'soon'])
  assert.equal(usage.code, exits.usage.code)
  assert.match(usage.stderr, /--confirm-within must be a duration such as 90s, 10m or 2h, not 'soon'/)
  const applied = await cli(['change-sets', 'apply', id, '--confirm-within', '10m', '--output', 'json'])
  const { applied_at, confirm_by } = JSON.parse(applied.stdout)
  assert.equal(Math.round((Date.parse(confirm_by) - Date.parse(applied_at)) / 60_000), 10)
  const waiting = await cli(['change-sets', 'list', '--unconfirmed', '--output', 'ids'])
  assert.equal(waiting.stdout.trim(), id)
  const confirmed = await cli(['change-sets', 'confirm', id, '--output', 'json'])
  assert.equal(JSON.parse(confirmed.stdout).state, 'confirmed')
})

test('a dry run and a preview say which addresses would be refused, what is unknown, and which access tests would fail', async () => {
  const policy = await policyWith(admin, 'allow 192.0.2.0/28')
  const edge = await make(admin, '/edges/tcp', {})
  const module = ['edges', 'tcp', 'ip-restriction', 'replace', edge.id, '--ip-policy-ids', policy]
  const dry = await cli([...module, '--dry-run'])
  assert.match(dry.stdout, new RegExp(`\nat TCP edge ${edge.id}:\n {4}unknown: No edge node `))
  assert.equal(dry.stderr, 'This was a dry run: nothing was changed.\n')
  await writeOutcomes(
    plane.db,
    ['192.0.2.7', '203.0.113.9'].map((ip) => {
      return { targetId: toUuid(edge.id), ip, outcome: 'allowed' as const, at: Date.now() }
    }),
  )
  const refused = /, of 2 addresses seen there in the last 7 days:\n {4}1 address would be refused: 203\.0\.113\.9\n/
  assert.match(await cli.ok([...module, '--dry-run']), refused)
  const target = { type: 'edge', edge_id: edge.id }
  await make(admin, '/access_tests', { description: 'partner', address: '203.0.113.9', target, expect: 'allowed' })
  const body = { ip_policy_ids: [policy] }
  const operation = 'tcp_edges.ip_restriction.replace'
  const { id } = await make(admin, '/change_sets', { changes: [{ operation, parameters: { id: edge.id }, body }] })
  const preview = await cli.ok(['change-sets', 'preview', id])
  assert.match(preview, refused)
  assert.match(preview, /^Would fail access test act_\w+ \(partner\): 203\.0\.113\.9 would be refused\. /m)
  assert.equal((await cli.json(['change-sets', 'preview', id])).impact.newly_refused, 1)
})
