import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Answer, Client } from '../../../test/harness/client.ts'
import { assertRefused } from '../../../test/harness/fixtures.ts'
import { poll } from '../../../test/harness/poll.ts'
import { newUser } from '../../../test/harness/principals.ts'
import { sharedControlPlane } from '../../../test/harness/shared_control_plane.ts'

const plane = await sharedControlPlane({ after })

async function done(answer: Promise<Answer>) {
  const { status, body, text } = await answer
  assert.ok(status < 300, text)
  return body
}
const changing = (id: string, description: string) => ({
  changes: [{ operation: 'ip_policies.update', parameters: { id }, body: { description } }],
})
const newPolicy = (admin: Client) => done(admin('POST', '/ip_policies', { description: 'before' }))
/** Resolves to the path of a change set that was applied to be confirmed. */
async function tried(admin: Client, changes: object, seconds: number): Promise<string> {
  const { id } = await done(admin('POST', '/change_sets', changes))
  const applied = await done(admin('POST', `/change_sets/${id}/apply`, { confirm_within_seconds: seconds }))
  assert.equal(applied.state, 'applied')
  const leftMs = Date.parse(applied.confirm_by) - Date.parse(applied.applied_at)
  assert.ok(leftMs >= seconds * 1_000, `${leftMs} ms are left to confirm it`)
  return `/change_sets/${id}`
}
const confirm = (as: Client, path: string) => as('POST', `${path}/confirm`, {})
const ended = (as: Client, path: string) =>
  poll(async () => {
    const set = await done(as('GET', path))
    return set.state === 'applied' ? undefined : set
  })
const descriptionOf = async (admin: Client, { uri }: { uri: string }) => (await done(admin('GET', uri))).description

test('a change set that no one confirms in time is undone, and the audit says why', async () => {
  const admin = await plane.newAccount()
  const policy = await newPolicy(admin)
  const path = await tried(admin, changing(policy.id, 'after'), 1)
  assert.equal(await descriptionOf(admin, policy), 'after')
  const { change_sets: waiting } = await done(admin('GET', '/change_sets?unconfirmed=true'))
  assert.deepEqual(
    waiting.map(({ id }: { id: string }) => `/change_sets/${id}`),
    [path],
  )
  const set = await ended(admin, path)
  assert.equal(set.state, 'reverted')
  assert.equal(await descriptionOf(admin, policy), 'before')
  const { audit_events } = await done(admin('GET', '/audit_events?operation=change_sets.revert_unconfirmed'))
  const [event] = audit_events
  assert.deepEqual([event.resource_id, event.owner_id, event.api_key_id], [set.id, null, null])
  assert.deepEqual([event.before.state, event.after.state], ['applied', 'reverted'])
  assert.equal(event.after.reason, `not confirmed by ${set.confirm_by}`)
  const undoing = await done(admin('GET', `/change_sets/${event.after.reverted_by_id}`))
  assert.deepEqual([undoing.state, undoing.reverts_id], ['applied', set.id])
  assertRefused(await confirm(admin, path), 409, 'ERR_NOT_CONFIRMABLE')
  assert.deepEqual((await done(admin('GET', '/change_sets?unconfirmed=true'))).change_sets, [])
})

test('only its own part is undone', async () => {
  const admin = await plane.newAccount()
  const policy = await newPolicy(admin)
  const path = await tried(admin, changing(policy.id, 'after'), 2)
  await done(admin('PATCH', policy.uri, { metadata: 'theirs' }))
  assert.equal((await ended(admin, path)).state, 'reverted')
  const { description, metadata } = await done(admin('GET', policy.uri))
  assert.deepEqual([description, metadata], ['before', 'theirs'])
})

test('a change set that is confirmed stays, and can be reverted as any other', async () => {
  const admin = await plane.newAccount()
  const policy = await newPolicy(admin)
  const path = await tried(admin, changing(policy.id, 'after'), 600)
  const confirmed = await done(confirm(admin, path))
  assert.deepEqual([confirmed.state, confirmed.confirmed_by_id], ['confirmed', admin.adminId])
  assert.equal((await done(confirm(admin, path))).state, 'confirmed', 'a second time')
  const { id } = await done(admin('POST', `${path}/revert`, {}))
  await done(admin('POST', `/change_sets/${id}/apply`, {}))
  assert.equal(await descriptionOf(admin, policy), 'before')
  assert.equal((await done(admin('GET', path))).state, 'reverted')
})

test('a change set that cannot be undone any more stays, says why, and waits for a decision', async () => {
  const admin = await plane.newAccount()
  const [first, second] = [await newPolicy(admin), await newPolicy(admin)]
  const path = await tried(admin, changing(first.id, 'after'), 2)
  await done(admin('PATCH', first.uri, { description: 'later' }))
  const other = await tried(admin, changing(second.id, 'after'), 2)
  await done(admin('DELETE', second.uri))
  for (const [each, reason] of [
    [path, /has another description/],
    [other, /cannot be put back/],
  ] as const) {
    const set = await ended(admin, each)
    assert.equal(set.state, 'revert_failed')
    assert.match(set.revert_failure, reason)
  }
  assert.equal(await descriptionOf(admin, first), 'later')
  const { change_sets } = await done(admin('GET', '/change_sets?unconfirmed=true'))
  assert.equal(change_sets.length, 2)
  const { audit_events } = await done(admin('GET', '/audit_events?operation=change_sets.revert_unconfirmed'))
  assert.deepEqual(
    audit_events.map(({ after: { state } }: { after: { state: string } }) => state),
    ['revert_failed', 'revert_failed'],
  )
  const kept = await done(confirm(admin, path))
  assert.deepEqual([kept.state, kept.confirmed_by_id], ['confirmed', admin.adminId])
})

test('changes that cannot be undone are not applied for a limited time', async () => {
  const admin = await plane.newAccount()
  const policy = await newPolicy(admin)
  const rules = { rules: [{ cidr: '192.0.2.0/24', action: 'allow' }] }
  const changes = [{ operation: 'ip_policies.replace_rules', parameters: { id: policy.id }, body: rules }]
  const { id } = await done(admin('POST', '/change_sets', { changes }))
  const refused = await admin('POST', `/change_sets/${id}/apply`, { confirm_within_seconds: 60 })
  assertRefused(refused, 409, 'ERR_NOT_REVERSIBLE')
  assert.match(refused.body.msg, /rule set/)
  assert.equal((await done(admin('GET', `/change_sets/${id}`))).state, 'draft')
  await done(admin('POST', `/change_sets/${id}/apply`, {}))
  const toStay = await confirm(admin, `/change_sets/${id}`)
  assertRefused(toStay, 409, 'ERR_NOT_CONFIRMABLE')
  assert.match(toStay.body.msg, /applied to stay/)
})

test('what locks its author out of the API is undone, and cannot be confirmed from there', async () => {
  const admin = await plane.newAccount()
  const elsewhere = await done(admin('POST', '/ip_policies', {}))
  await done(admin('POST', '/ip_policy_rules', { ip_policy_id: elsewhere.id, action: 'allow', cidr: '192.0.2.0/24' }))
  const lockOut = {
    operation: 'ip_restrictions.create',
    parameters: { allow_self_lockout: true },
    body: { type: 'api', ip_policy_ids: [elsewhere.id], enforced: true },
  }
  const path = await tried(admin, { changes: [lockOut] }, 2)
  assertRefused(await confirm(admin, path), 403, 'ERR_IP_REFUSED')
  const back = await poll(async () => {
    const answer = await admin('GET', path)
    return answer.status === 200 && answer.body.state === 'reverted' ? answer : undefined
  })
  assert.equal(back?.status, 200)
  assert.deepEqual((await done(admin('GET', '/ip_restrictions'))).ip_restrictions, [])
})

test('an access test that was made meanwhile does not keep a change set from being undone, and the audit names it', async () => {
  const admin = await plane.newAccount()
  const policy = await newPolicy(admin)
  const restriction = { type: 'agent', ip_policy_ids: [policy.id], enforced: false }
  const { id } = await done(admin('POST', '/ip_restrictions', restriction))
  void id
  await done(admin('POST', '/ip_restrictions', { ...restriction, type: 'dashboard', enforced: true }))
  const admit = {
    operation: 'ip_policy_rules.create',
    body: { ip_policy_id: policy.id, action: 'allow', cidr: '192.0.2.0/24' },
  }
  const path = await tried(admin, { changes: [admit] }, 2)
  const required = await done(
    admin('POST', '/access_tests', { address: '192.0.2.1', target: { type: 'dashboard' }, expect: 'allowed' }),
  )
  assert.equal((await ended(admin, path)).state, 'reverted')
  const { audit_events } = await done(admin('GET', `/audit_events?resource_id=${required.id}`))
  assert.equal(audit_events[0].after.ignored_access_tests, true)
})

test('to confirm changes takes the right to make them', async () => {
  const admin = await plane.newAccount()
  const member = await newUser(plane, admin, 'member')
  const viewer = await newUser(plane, admin, 'viewer')
  const policy = await newPolicy(admin)
  const path = await tried(admin, changing(policy.id, 'after'), 600)
  const { token } = await done(admin('POST', '/api_keys', { scopes: ['change_sets.*'] }))
  assertRefused(await confirm(plane.clientFor(token), path), 403, 'ERR_SCOPE')
  assertRefused(await confirm(viewer, path), 403, 'ERR_FORBIDDEN')
  assertRefused(await confirm(await plane.newAccount(), path), 404, 'ERR_NOT_FOUND')
  assert.equal((await done(confirm(member, path))).state, 'confirmed')
})

test('either a confirmation or the deadline wins', async () => {
  const admin = await plane.newAccount()
  for (let round = 0; round < 3; round++) {
    const policy = await newPolicy(admin)
    const path = await tried(admin, changing(policy.id, 'after'), 1)
    const { confirm_by } = await done(admin('GET', path))
    await poll(() => (Date.now() >= Date.parse(confirm_by) - 10 ? true : undefined))
    const answer = await confirm(admin, path)
    const { state } = await ended(admin, path)
    assert.equal(state, answer.status === 200 ? 'confirmed' : 'reverted')
    assert.equal(await descriptionOf(admin, policy), answer.status === 200 ? 'after' : 'before')
  }
})
