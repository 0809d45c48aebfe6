import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Answer, Client } from '../../../test/harness/client.ts'
import { assertRefused } from '../../../test/harness/fixtures.ts'
import { poll } from '../../../test/harness/poll.ts'
import { newBot, newIndependentAdmin, newUser } from '../../../test/harness/principals.ts'
import { sharedControlPlane } from '../../../test/harness/shared_control_plane.ts'
import { one, run } from '../../db/pool.ts'
import { type SqlFragment, sql } from '../../db/sql.ts'
import { type Id, toUuid } from '../../kernel/ids.ts'

const plane = await sharedControlPlane({ after })

async function done(answer: Promise<Answer>) {
  const { status, body, text } = await answer
  assert.ok(status < 300, text)
  return body
}
/** An account with two admins in which changes of policies need approval. */
async function withApproval(kinds = ['ip_policies']) {
  const author = await plane.newAccount()
  const approver = await newIndependentAdmin(plane, author)
  const policy = await done(author('POST', '/ip_policies', { description: 'before' }))
  await done(author('PUT', '/approval_policy', { required_for: kinds }))
  return { author, approver, policy }
}
async function proposed(answer: Promise<Answer>) {
  const { status, body, text, headers } = await answer
  assert.equal(status, 202, text)
  assert.equal(body.state, 'waiting')
  assert.equal(headers.get('location'), body.uri)
  return body as { id: string; uri: string; content_sha256: string; state: string; author_id: string }
}
const approve = (as: Client, { id, content_sha256 }: { id: string; content_sha256: string }) =>
  as('POST', `/change_sets/${id}/approve`, { content_sha256 })
const apply = (as: Client, { id }: { id: string }, query = '') => as('POST', `/change_sets/${id}/apply${query}`, {})
const descriptionOf = async (as: Client, { uri }: { uri: string }) => (await done(as('GET', uri))).description
const glass = (reason: string) => ({ headers: { 'service-reason': reason } })
const eventsOf = async (as: Client, operation: string) =>
  (await done(as('GET', `/audit_events?operation=${operation}`))).audit_events

test('a change that needs approval becomes a change set, which another admin approves before it is applied', async () => {
  const { author, approver, policy } = await withApproval()
  const set = await proposed(author('PATCH', policy.uri, { description: 'after' }))
  assert.equal(set.author_id, author.adminId)
  assert.equal(await descriptionOf(author, policy), 'before')
  assertRefused(await apply(author, set), 409, 'ERR_APPROVAL_REQUIRED')
  assertRefused(await approve(author, set), 403, 'ERR_NOT_INDEPENDENT')
  const approved = await done(approve(approver, set))
  assert.deepEqual([approved.state, approved.approved_by_id], ['approved', approver.ownerId])
  assert.equal((await done(apply(author, set))).state, 'applied')
  assert.equal(await descriptionOf(author, policy), 'after')
  const [event] = await eventsOf(author, 'change_sets.approve')
  assert.deepEqual([event.owner_id, event.resource_id, event.after.state], [approver.ownerId, set.id, 'approved'])
  // Other kinds are as before.
  await done(author('POST', '/backends/static', { address: 'app.internal:80' }))
})

test('each way to change a kind of resource waits for approval, and is refused as the change itself would be', async () => {
  const { author, policy } = await withApproval(['ip_policies', 'edges'])
  const create = { ip_policy_id: policy.id, action: 'allow', cidr: '192.0.2.0/24' }
  await proposed(author('POST', '/ip_policy_rules', create))
  await proposed(author('PUT', `${policy.uri}/rules`, { rules: [] }))
  await proposed(author('DELETE', policy.uri))
  await proposed(author('POST', '/edges/https', {}))
  assertRefused(
    await author('POST', '/ip_policy_rules', { ...create, cidr: '192.0.2.1/24' }),
    400,
    'ERR_INVALID_FIELD',
    'cidr',
  )
  assertRefused(await author('PATCH', '/ip_policies/ipp_00000000000000000000000000', {}), 404, 'ERR_NOT_FOUND')
  assertRefused(
    await author('PATCH', policy.uri, {}, { headers: { 'if-match': '"other"' } }),
    412,
    'ERR_PRECONDITION_FAILED',
  )
  const viewer = await newUser(plane, await plane.newAccount(), 'viewer')
  assertRefused(await viewer('PATCH', policy.uri, {}), 403, 'ERR_FORBIDDEN')
  const change = { operation: 'ip_policies.update', parameters: { id: policy.id }, body: { description: 'x' } }
  const set = await done(author('POST', '/change_sets', { changes: [change] }))
  assert.equal(set.state, 'waiting')
  const revert = await done(
    author('POST', `/audit_events/${(await eventsOf(author, 'ip_policies.create'))[0].id}/revert`, {}),
  )
  assert.equal(revert.state, 'waiting')
  assertRefused(await apply(author, revert), 409, 'ERR_APPROVAL_REQUIRED')
})

test('rules that are sent as text wait with the metadata that they keep', async () => {
  const { author, approver, policy } = await withApproval([])
  await done(
    author('POST', '/ip_policy_rules', {
      ip_policy_id: policy.id,
      action: 'allow',
      cidr: '192.0.2.0/24',
      metadata: 'kept',
    }),
  )
  await done(author('PUT', '/approval_policy', { required_for: ['ip_policies'] }))
  const lines = 'allow 192.0.2.0/24 # office\ndeny 198.51.100.0/24'
  const set = await proposed(
    author('PUT', `${policy.uri}/rules`, undefined, { rawBody: lines, contentType: 'text/plain' }),
  )
  await done(approve(approver, set))
  await done(apply(author, set))
  const { rules } = await done(author('GET', `${policy.uri}/rules`))
  assert.deepEqual(
    rules.map(({ cidr, description, metadata }: Record<string, unknown>) => [cidr, description, metadata]),
    [
      ['192.0.2.0/24', 'office', 'kept'],
      ['198.51.100.0/24', undefined, undefined],
    ],
  )
})

test('the same change sent again is the same change set, but each creation is another', async () => {
  const { author, policy } = await withApproval()
  const first = await proposed(author('PATCH', policy.uri, { description: 'after' }))
  assert.equal((await proposed(author('PATCH', policy.uri, { description: 'after' }))).id, first.id)
  assert.notEqual((await proposed(author('PATCH', policy.uri, { description: 'other' }))).id, first.id)
  const create = (key: string) =>
    author('POST', '/ip_policies', { description: 'new' }, { headers: { 'idempotency-key': key } })
  const made = await proposed(create('one'))
  assert.equal((await proposed(create('one'))).id, made.id)
  assert.notEqual((await proposed(create('two'))).id, made.id)
})

test('no one approves with a key that the author has made, and no one makes a change with it that the author then approves', async () => {
  const { author, approver, policy } = await withApproval()
  const { body: key } = await author('POST', '/api_keys', { owner_id: approver.ownerId })
  const inTheirName = plane.clientFor(key.token)
  const set = await proposed(author('PATCH', policy.uri, { description: 'after' }))
  assertRefused(await approve(inTheirName, set), 403, 'ERR_NOT_INDEPENDENT')
  // Nor with a key that this one makes, even when the first is deleted.
  const { body: second } = await inTheirName('POST', '/api_keys', {})
  await done(approver('DELETE', `/api_keys/${key.id}`))
  assertRefused(await approve(plane.clientFor(second.token), set), 403, 'ERR_NOT_INDEPENDENT')
  const theirs = await proposed(plane.clientFor(second.token)('PATCH', policy.uri, { description: 'theirs' }))
  assert.equal(theirs.author_id, approver.ownerId)
  assertRefused(await approve(author, theirs), 403, 'ERR_NOT_INDEPENDENT')
  // Nor with a key of theirs that the author has rotated.
  const { body: own } = await approver('POST', '/api_keys', {})
  const rotated = await done(author('POST', `/api_keys/${own.id}/rotate`, {}))
  assertRefused(await approve(plane.clientFor(rotated.token), set), 403, 'ERR_NOT_INDEPENDENT')
  // Nor with a change that someone else has edited: both have made it.
  await done(approver('PATCH', `/change_sets/${set.id}`, { description: 'edited' }))
  const edited = await done(author('GET', `/change_sets/${set.id}`))
  assertRefused(await approve(approver, edited), 403, 'ERR_NOT_INDEPENDENT')
  assertRefused(await approve(author, edited), 403, 'ERR_NOT_INDEPENDENT')
})

test('bots and members do not approve, and a key needs the scopes of the changes', async () => {
  const { author, approver, policy } = await withApproval()
  const set = await proposed(author('PATCH', policy.uri, { description: 'after' }))
  assertRefused(await approve(await newBot(plane, author), set), 403, 'ERR_FORBIDDEN')
  const { body: key } = await approver('POST', '/api_keys', { scopes: ['change_sets.*'] })
  assertRefused(await approve(plane.clientFor(key.token), set), 403, 'ERR_SCOPE')
  const bot = await newBot(plane, author)
  const ofBot = await proposed(bot('PATCH', policy.uri, { description: 'bot' }))
  assertRefused(await approve(author, ofBot), 403, 'ERR_NOT_INDEPENDENT')
  await done(approve(approver, ofBot))
})

test('an approval is of exactly what was looked at', async () => {
  const { author, approver, policy } = await withApproval()
  const set = await proposed(author('PATCH', policy.uri, { description: 'after' }))
  const change = { operation: 'ip_policies.update', parameters: { id: policy.id }, body: { description: 'worse' } }
  await done(author('PATCH', `/change_sets/${set.id}`, { changes: [change] }))
  assertRefused(await approve(approver, set), 412, 'ERR_PRECONDITION_FAILED')
  const now = await done(approver('GET', `/change_sets/${set.id}`))
  await done(approve(approver, now))
  const changed = await done(author('PATCH', `/change_sets/${set.id}`, { description: 'again' }))
  assert.deepEqual([changed.state, changed.approved_by_id], ['waiting', null])
  assertRefused(await apply(author, set), 409, 'ERR_APPROVAL_REQUIRED')
  await done(approve(approver, changed))
  // What others change meanwhile is in the way.
  await done(approver('PATCH', `${policy.uri}?break_glass=true`, { metadata: 'm' }, glass('test')))
  assertRefused(await apply(author, set), 409, 'ERR_CHANGE_SET_CONFLICT')
})

test('an approval does not count for content that was put into the row in another way', async () => {
  const { author, approver, policy } = await withApproval()
  const set = await proposed(author('PATCH', policy.uri, { description: 'after' }))
  await done(approve(approver, set))
  const id = toUuid(set.id as Id<'chs'>)
  const { changes, base, description } = await one<Record<'changes' | 'base', object> & { description: string | null }>(
    plane.db,
    sql`select changes, base, description from change_sets where id = ${id}`,
  )
  const put = (column: SqlFragment, value: string | null) =>
    run(plane.db, sql`update change_sets set ${column} = ${value} where id = ${id}`)
  for (const [column, other, approved] of [
    [sql`changes`, JSON.stringify(changes).replace('after', 'worse'), JSON.stringify(changes)],
    [sql`base`, '{}', JSON.stringify(base)],
    [sql`description`, 'harmless', description],
  ] as const) {
    await put(column, other)
    const refused = await apply(author, set)
    assertRefused(refused, 409, 'ERR_APPROVAL_REQUIRED')
    assert.match(refused.body.msg, /not as it was approved/)
    assert.equal(await descriptionOf(author, policy), 'before')
    await put(column, approved)
  }
  assert.equal((await done(apply(author, set))).state, 'applied')
  assert.equal(await descriptionOf(author, policy), 'after')
})

test('the approval of someone who is no admin any more does not count', async () => {
  const { author, approver, policy } = await withApproval()
  const set = await proposed(author('PATCH', policy.uri, { description: 'after' }))
  await done(approve(approver, set))
  await done(author('PATCH', `${approver.ownerUri}?break_glass=true`, { active: false }, glass('left the company')))
  const refused = await apply(author, set)
  assertRefused(refused, 409, 'ERR_APPROVAL_REQUIRED')
  assert.match(refused.body.msg, /not an active admin any more/)
  const dry = await done(apply(author, set, '?dry_run=true'))
  assert.equal(dry.needs_approval, true)
})

test('turning approval off, and changing who may approve, needs approval', async () => {
  const { author, approver } = await withApproval()
  const off = await proposed(author('PUT', '/approval_policy', { required_for: [] }))
  await proposed(author('POST', '/users', { name: 'Eve', email: `${off.id}@example.com`, role: 'admin' }))
  assert.deepEqual((await done(author('GET', '/approval_policy'))).required_for, ['ip_policies'])
  await done(approve(approver, off))
  await done(apply(author, off))
  assert.deepEqual((await done(author('GET', '/approval_policy'))).required_for, [])
  await done(author('POST', '/ip_policies', {}))
})

test('approval cannot be turned on where no one else could approve', async () => {
  const admin = await plane.newAccount()
  const wanted = { required_for: ['ip_policies'] }
  assertRefused(await admin('PUT', '/approval_policy', wanted), 409, 'ERR_NO_APPROVER')
  const puppet = await newUser(plane, admin, 'admin')
  assertRefused(await admin('PUT', '/approval_policy', wanted), 409, 'ERR_NO_APPROVER')
  assertRefused(await puppet('PUT', '/approval_policy', wanted), 409, 'ERR_NO_APPROVER')
  await newIndependentAdmin(plane, admin)
  await done(admin('PUT', '/approval_policy', wanted))
})

test('an admin does without approval in an emergency, and the audit says so', async () => {
  const { author, policy } = await withApproval()
  const bot = await newBot(plane, author)
  const reason = glass('the office is locked out')
  const path = `${policy.uri}?break_glass=true`
  assertRefused(await bot('PATCH', path, { description: 'now' }, reason), 403, 'ERR_FORBIDDEN')
  assertRefused(await author('PATCH', path, { description: 'now' }), 400, 'ERR_INVALID_FIELD', 'Service-Reason')
  const made = await author('PATCH', path, { description: 'now' }, reason)
  assert.equal(made.status, 200, made.text)
  const [event] = await eventsOf(author, 'approval_policy.break_glass')
  assert.deepEqual(event.after, { break_glass: 'ip_policies.update', reason: 'the office is locked out' })
  assert.equal(event.operation_id, made.headers.get('operation-id'))
  const set = await proposed(author('PATCH', policy.uri, { description: 'later' }))
  await done(author('POST', `/change_sets/${set.id}/apply?break_glass=true`, {}, reason))
  const events = await eventsOf(author, 'approval_policy.break_glass')
  assert.deepEqual([events.length, events[0].resource_id], [2, set.id])
  // Nothing is noted where nothing is bypassed.
  await done(author('POST', '/backends/static?break_glass=true', { address: 'app.internal:80' }, reason))
  assert.equal((await eventsOf(author, 'approval_policy.break_glass')).length, 2)
})

test('a change set is withdrawn, and stays so', async () => {
  const { author, approver, policy } = await withApproval()
  const set = await proposed(author('PATCH', policy.uri, { description: 'after' }))
  const gone = await done(author('POST', `/change_sets/${set.id}/withdraw`, {}))
  assert.deepEqual([gone.state, gone.withdrawn_by_id], ['withdrawn', author.adminId])
  for (const answer of [await approve(approver, set), await apply(author, set), await author('PATCH', set.uri, {})])
    assertRefused(answer, 409, 'ERR_CHANGE_SET_APPLIED')
})

test('a dry run says that approval would be needed, and what the change would do', async () => {
  const { author, policy } = await withApproval()
  const dry = await done(author('PATCH', `${policy.uri}?dry_run=true`, { description: 'after' }))
  assert.equal(dry.needs_approval, true)
  assert.equal(dry.differences[0].after.description, 'after')
  const set = await proposed(author('PATCH', policy.uri, { description: 'after' }))
  assert.equal((await done(author('POST', `/change_sets/${set.id}/preview`, {}))).needs_approval, true)
  const other = await done(author('POST', '/backends/static?dry_run=true', { address: 'app.internal:80' }))
  assert.equal(other.needs_approval, false)
})

test('what was applied for a limited time is undone without another approval', async () => {
  const { author, approver, policy } = await withApproval()
  const set = await proposed(author('PATCH', policy.uri, { description: 'after' }))
  await done(approve(approver, set))
  await done(author('POST', `/change_sets/${set.id}/apply`, { confirm_within_seconds: 1 }))
  assert.equal(await descriptionOf(author, policy), 'after')
  await poll(async () => ((await descriptionOf(author, policy)) === 'before' ? true : undefined))
  assert.equal((await done(author('GET', set.uri))).state, 'reverted')
})
