// What an assistant can and cannot do with keys of different rights, through the client of the SDK and the real service.
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { after, test } from 'node:test'
import { inChangeSets, readable } from '../../src/cli/mcp/catalog.ts'
import { startFailingProxy } from '../client/failing_proxy.ts'
import { make, newPolicy } from '../harness/fixtures.ts'
import { poll } from '../harness/poll.ts'
import { newUser } from '../harness/principals.ts'
import { sharedControlPlane } from '../harness/shared_control_plane.ts'
import { startSession } from './session.ts'

const plane = await sharedControlPlane({ after })
const url = plane.processes[0]?.origin ?? ''
const proposal = {
  description: 'admit a partner',
  changes: [
    { operation: 'ip_policies.create', body: { description: 'partner' } },
    {
      operation: 'ip_policy_rules.create',
      body: { ip_policy_id: '{{changes[0].id}}', action: 'allow', cidr: '192.0.2.0/24' },
    },
  ],
}
const guide = await readFile(new URL('../../docs/guides/mcp.md', import.meta.url), 'utf8')
const [, scopes = ''] = /^gatehouse api-keys create .*--scopes '([^']+)'/m.exec(guide) ?? []

test('an admin key reads everything and proposes; even so, only a person applies', async (t) => {
  const admin = await plane.newAccount()
  const policy = await newPolicy(admin, { description: 'office' })
  const session = await startSession(t, url, admin.token)
  assert.equal((await session.data('read', { operation: 'caller.get' })).role, 'admin')
  const { ip_policies } = await session.data('read', { operation: 'ip_policies.list' })
  assert.deepEqual(
    ip_policies.map(({ id }: { id: string }) => id),
    [policy.id],
  )
  const events = await session.data('read', { operation: 'audit_events.list', parameters: { resource_id: policy.id } })
  assert.equal(events.audit_events[0].operation, 'ip_policies.create')

  const draft = await session.data('propose_changes', proposal)
  assert.equal(draft.state, 'draft')
  assert.match(draft.next_step, new RegExp(`gatehouse change-sets apply ${draft.id}`))
  const preview = await session.data('preview_proposal', { id: draft.id })
  assert.deepEqual([preview.differences.length, preview.conflicts], [2, []])
  await session.data('update_proposal', {
    id: draft.id,
    description: 'admit no one',
    changes: proposal.changes.slice(0, 1),
  })
  assert.equal((await admin('GET', `/change_sets/${draft.id}`)).body.changes.length, 1)

  const { body: after } = await admin('GET', '/ip_policies')
  assert.equal(after.ip_policies.length, 1, 'a proposal changed something')
  assert.equal((await admin('POST', `/change_sets/${draft.id}/apply`, {})).status, 200)
  assert.match(await session.refused('withdraw_proposal', { id: draft.id }), /ERR_CHANGE_SET_APPLIED/)
  const other = await session.data('propose_changes', proposal)
  await session.data('withdraw_proposal', { id: other.id })
  assert.equal((await admin('GET', `/change_sets/${other.id}`)).status, 404)
})

test('the key of the guide reads everything, checks, previews and proposes, and can do nothing else', async (t) => {
  const admin = await plane.newAccount()
  const { token } = await make(admin, '/api_keys', { scopes: scopes.split(',') })
  const session = await startSession(t, url, token)
  const { operations } = await session.data('list_operations')
  for (const line of operations as string[]) {
    const [operation = '', needs = ''] = line.split(': ')
    // Those without ids: which of them a key may call depends on nothing else.
    if (/\((?!.*\?)[^)]*\b(id|edge_id|generation)\b/.test(line) || needs === '') continue
    const { text } = await session.call('read', { operation })
    assert.doesNotMatch(text, /ERR_SCOPE/, operation)
  }
  const checked = await session.data('check_access', { type: 'api', ip: '192.0.2.1' })
  assert.equal(checked.allowed, true)
  const policy = await newPolicy(admin)
  const parameters = { id: policy.id }
  assert.ok(await session.data('read', { operation: 'ip_policies.rules', parameters }))
  assert.ok(await session.data('read', { operation: 'ip_policies.impact', parameters, body: { rules: [] } }))
  const draft = await session.data('propose_changes', proposal)
  assert.equal((await session.data('preview_proposal', { id: draft.id })).differences.length, 2)
  for (const [tool, given] of [
    ['update_proposal', { id: draft.id, description: 'x' }],
    ['withdraw_proposal', { id: draft.id }],
  ] as const)
    assert.match(await session.refused(tool, given), /ERR_SCOPE[\s\S]*limited to its scopes/)
  const own = plane.clientFor(token)
  assert.equal((await own('POST', `/change_sets/${draft.id}/apply`, {})).status, 403)
  assert.equal((await own('POST', '/ip_policies', {})).status, 403)
})

test('a key with few scopes reads only those, and the answer says which scope is missing', async (t) => {
  const admin = await plane.newAccount()
  const { token } = await make(admin, '/api_keys', { scopes: ['ip_policies.list'] })
  const session = await startSession(t, url, token)
  assert.deepEqual((await session.data('read', { operation: 'ip_policies.list' })).ip_policies, [])
  assert.match(await session.refused('read', { operation: 'users.list' }), /ERR_SCOPE[\s\S]*missing: users\.list/)
  assert.match(await session.refused('propose_changes', proposal), /missing: change_sets\.create/)
  assert.match(await session.refused('check_access', { type: 'api', ip: '192.0.2.1' }), /missing: ip_checks\.create/)
})

test("a viewer's key reads, and proposes nothing", async (t) => {
  const admin = await plane.newAccount()
  const viewer = await newUser(plane, admin, 'viewer')
  const session = await startSession(t, url, viewer.token)
  assert.deepEqual((await session.data('read', { operation: 'ip_policies.list' })).ip_policies, [])
  assert.match(await session.refused('read', { operation: 'audit_events.list' }), /ERR_FORBIDDEN[\s\S]*role/)
  assert.match(await session.refused('propose_changes', proposal), /ERR_FORBIDDEN/)
})

test('even if everything else is asked for, only reads, questions and drafts reach the service', async (t) => {
  const admin = await plane.newAccount()
  const policy = await newPolicy(admin)
  const proxy = await startFailingProxy(t, url)
  const session = await startSession(t, proxy.url, admin.token)
  const draft = await session.data('propose_changes', proposal)
  const { tools } = await session.client.listTools()
  const ids = [draft.id, policy.id, '..', '.', '%2e%2e', `${draft.id}/apply`, `../ip_policies/${policy.id}`, '', '?x=1']
  const everyOperation = [
    ...inChangeSets.keys(),
    'change_sets.apply',
    'api_keys.rotate',
    'api_keys.create',
    '__proto__',
  ]
  for (const { name } of tools)
    for (const id of ids)
      for (const given of [{ id }, { id, changes: [{ operation: 'change_sets.apply', parameters: { id } }] }])
        if (name !== 'withdraw_proposal' || id !== draft.id) await session.call(name, given)
  for (const { id: operation, parameters } of readable.values()) {
    const given = parameters.filter((each) => each.in === 'path').map(({ name }) => [name, policy.id])
    await session.call('read', { operation, parameters: Object.fromEntries(given), body: {} })
  }
  for (const operation of everyOperation)
    for (const id of [policy.id, draft.id]) {
      await session.refused('read', { operation, parameters: { id } })
      await session.refused('read', { operation, parameters: { id }, body: {} })
    }
  for (const operation of ['ip_policies.get', 'change_sets.get'])
    for (const parameters of [{ id: '..' }, { id: policy.id, dry_run: false }, { id: policy.id, method: 'DELETE' }])
      await session.refused('read', { operation, parameters })
  const proposed = (change: object) => session.refused('propose_changes', { description: 'x', changes: [change] })
  for (const operation of ['change_sets.apply', 'change_sets.delete', 'api_keys.rotate', 'dashboard_session.sign_out'])
    assert.match(await proposed({ operation, parameters: { id: draft.id } }), /cannot be proposed/)
  const enforced = { type: 'api', ip_policy_ids: [policy.id], enforced: true }
  const lockout = { operation: 'ip_restrictions.create', parameters: { allow_self_lockout: true }, body: enforced }
  assert.match(await proposed(lockout), /has no parameter 'allow_self_lockout'/)

  const allowed =
    /^(GET \/|POST \/(ip_checks|change_sets|change_sets\/(chs|ipp)_\w+\/preview|ip_policies\/ipp_\w+\/impact)$|(PATCH|DELETE) \/change_sets\/(chs|ipp)_\w+$)/
  assert.ok(proxy.forwarded.length > readable.size / 2, proxy.forwarded.join())
  for (const line of proxy.forwarded) assert.match(line, allowed)
  assert.equal((await admin('GET', `/ip_policies/${policy.id}`)).status, 200)
  assert.equal((await admin('GET', `/change_sets/${draft.id}`)).body.state, 'draft')
  const { body: events } = await admin('GET', '/audit_events?limit=100')
  const operations = new Set(events.audit_events.map(({ operation }: { operation: string }) => operation))
  for (const operation of operations) assert.match(String(operation), /^(change_sets|ip_policies|server)\.\w+$/)
})

test('what an assistant needs to make a proposal: the operations, the fields of each, and what is wrong with it', async (t) => {
  const admin = await plane.newAccount()
  const session = await startSession(t, url, admin.token)
  const { operations } = await session.data('list_operations', { kind: 'change', about: 'ip_policy' })
  assert.ok(operations.some((line: string) => line.startsWith('ip_policy_rules.create: ')))
  const described = await session.data('describe_operation', { operation: 'ip_policy_rules.create' })
  assert.deepEqual(described.body.required.sort(), ['action', 'cidr', 'ip_policy_id'])
  for (const operation of inChangeSets.keys()) {
    const { text } = await session.call('describe_operation', { operation })
    assert.doesNotMatch(text, /\$ref|"x-/, operation)
    assert.ok(text.length < 20_000, `${operation}: ${text.length}`)
  }
  const [first, rule] = proposal.changes
  const wrong = { ...rule, body: { ...rule?.body, cidr: '192.0.2.1/24' } }
  const refusal = await session.refused('propose_changes', { ...proposal, changes: [first, wrong] })
  assert.match(refusal, /ERR_CHANGE_REFUSED|ERR_INVALID_FIELD/)
  assert.match(refusal, /192\.0\.2\.0\/24/)
})

test('a refused call of the API is explained, with what decided', async (t) => {
  const admin = await plane.newAccount()
  const policy = await newPolicy(admin, { description: 'office' })
  await make(admin, '/ip_policy_rules', { ip_policy_id: policy.id, action: 'deny', cidr: '198.51.100.0/24' })
  await make(admin, '/ip_policy_rules', { ip_policy_id: policy.id, action: 'allow', cidr: '0.0.0.0/0' })
  await make(admin, '/ip_restrictions', { type: 'api', ip_policy_ids: [policy.id], enforced: true })
  const refused = await admin('GET', '/caller', undefined, { headers: { 'x-forwarded-for': '198.51.100.9' } })
  assert.equal(refused.status, 403)
  const session = await startSession(t, url, admin.token)
  const id = refused.body.details.operation_id
  const { text } = await poll(
    () => session.call('explain_request', { id }),
    ({ isError }) => !isError,
  )
  const { request, decided_by } = JSON.parse(text).data
  assert.deepEqual([request.outcome, request.source_ip], ['refused', '198.51.100.9'])
  assert.deepEqual([decided_by.ip_policy.description, decided_by.ip_policy_rule.cidr], ['office', '198.51.100.0/24'])
  const checked = await session.data('check_access', { type: 'api', ip: '198.51.100.9' })
  assert.equal(checked.allowed, false)
})
