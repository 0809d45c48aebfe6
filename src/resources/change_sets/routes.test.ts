import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Answer, Client } from '../../../test/harness/client.ts'
import { assertRefused } from '../../../test/harness/fixtures.ts'
import { policyWith } from '../../../test/harness/ip.ts'
import { newUser } from '../../../test/harness/principals.ts'
import { sharedControlPlane } from '../../../test/harness/shared_control_plane.ts'
import { type Id, toUuid } from '../../kernel/ids.ts'

const plane = await sharedControlPlane({ after })

type Change = { operation: string; parameters?: object; body?: object; if_match?: string }
const draft = (account: Client, changes: Change[]): Promise<Answer> => account('POST', '/change_sets', { changes })
async function drafted(account: Client, changes: Change[]): Promise<string> {
  const made = await draft(account, changes)
  assert.equal(made.status, 201, made.text)
  return `/change_sets/${made.body.id}`
}
const apply = (account: Client, path: string, query = '') => account('POST', `${path}/apply${query}`, {})
const auditOf = async (account: Client, operationId: string | null) =>
  (await account('GET', '/audit_events')).body.audit_events.filter(
    (event: { operation_id: string }) => event.operation_id === operationId,
  )

/** An edge with a policy and a route, each made by one change that refers to others. */
const published: Change[] = [
  { operation: 'ip_policies.create', body: { description: 'office' } },
  {
    operation: 'ip_policy_rules.create',
    body: { ip_policy_id: '{{changes[0].id}}', cidr: '192.0.2.0/24', action: 'allow' },
  },
  { operation: 'static_backends.create', body: { address: 'app.internal:80' } },
  { operation: 'https_edges.create', body: {} },
  {
    operation: 'https_edge_routes.create',
    parameters: { edge_id: '{{changes[3].id}}' },
    body: { match_type: 'path_prefix', match: '/', backend: { backend_id: '{{changes[2].id}}' } },
  },
  {
    operation: 'https_edge_routes.ip_restriction.replace',
    parameters: { edge_id: '{{changes[3].id}}', id: '{{changes[4].id}}' },
    body: { ip_policy_ids: ['{{changes[0].id}}'] },
  },
  {
    operation: 'weighted_backends.create',
    body: { backends: { '{{changes[2].id}}': 1 } },
  },
]

test('a change set makes all of its changes under one generation, and later changes can name what earlier ones create', async () => {
  const admin = await plane.newAccount()
  const path = await drafted(admin, published)
  assert.deepEqual((await admin('GET', '/ip_policies')).body.ip_policies, [], 'a draft changes nothing')
  const preview = await admin('POST', `${path}/preview`, {})
  assert.equal(preview.status, 200, preview.text)
  assert.deepEqual(preview.body.conflicts, [])
  assert.deepEqual(
    preview.body.differences.map(({ before }: { before: unknown }) => before),
    Array(7).fill(null),
  )
  const applied = await apply(admin, path)
  assert.equal(applied.status, 200, applied.text)
  const { state, generation, applied_resources: ids, applied_by_id } = applied.body
  assert.deepEqual([state, applied_by_id], ['applied', admin.adminId])
  assert.equal(Number(applied.headers.get('service-generation')), generation)
  const route = await admin('GET', `/edges/https/${ids[3]}/routes/${ids[4]}`)
  assert.equal(route.body.backend.backend.id, ids[2])
  assert.equal(route.body.ip_restriction.ip_policies[0].id, ids[0])
  const events = await auditOf(admin, applied.headers.get('operation-id'))
  assert.deepEqual(events.map(({ operation }: Change) => operation).toReversed(), [
    ...published.map(({ operation }) => operation),
    'change_sets.apply',
  ])
  const { rows } = await plane.db.query({
    text: 'select distinct generation from outbox where account_id = $1',
    values: [toUuid(admin.accountId as Id<'ac'>)],
  })
  assert.deepEqual(rows, [{ generation }])
  assertRefused(await apply(admin, path), 409, 'ERR_CHANGE_SET_APPLIED')
  assertRefused(await admin('PATCH', path, { description: 'later' }), 409, 'ERR_CHANGE_SET_APPLIED')
  assertRefused(await admin('DELETE', path), 409, 'ERR_CHANGE_SET_APPLIED')
})

test('when one change is refused, none is made, and the response says which one and why', async () => {
  const admin = await plane.newAccount()
  const { body: policy } = await admin('POST', '/ip_policies', {})
  const path = await drafted(admin, [
    { operation: 'ip_policies.create', body: { description: 'never' } },
    { operation: 'ip_policies.delete', parameters: { id: policy.id } },
  ])
  await admin('POST', '/ip_restrictions', { type: 'agent', ip_policy_ids: [policy.id], enforced: false })
  const refused = await apply(admin, path)
  assertRefused(refused, 409, 'ERR_CHANGE_REFUSED')
  const { change, operation, code } = refused.body.details
  assert.deepEqual([change, operation, code], ['1', 'ip_policies.delete', 'ERR_IP_POLICY_IN_USE'])
  assert.equal(
    refused.body.msg,
    `Change 2 of 2 (delete an IP policy and its rules: ${policy.id}) is refused. ${refused.body.details.reason}`,
  )
  assert.match(refused.body.details.reason, /^This IP policy is still used by ipx_/)
  assert.deepEqual(
    (await admin('GET', '/ip_policies')).body.ip_policies.map(({ id }: { id: string }) => id),
    [policy.id],
  )
  assert.equal((await admin('GET', path)).body.state, 'draft')
})

test('a draft that cannot be applied is refused when it is made', async () => {
  const admin = await plane.newAccount()
  const cases: [Change, string, RegExp][] = [
    [{ operation: 'ip_policies.list' }, 'ERR_INVALID_FIELD', /cannot be part of a change set/],
    [{ operation: 'api_keys.create' }, 'ERR_INVALID_FIELD', /cannot be part/],
    [{ operation: 'tls_certificates.create', body: {} }, 'ERR_INVALID_FIELD', /cannot be part/],
    [{ operation: 'dashboard_session.sign_out' }, 'ERR_INVALID_FIELD', /cannot be part/],
    [{ operation: 'reserved_domains.verify' }, 'ERR_INVALID_FIELD', /cannot be part/],
    [{ operation: 'change_sets.create', body: { changes: [] } }, 'ERR_INVALID_FIELD', /cannot be part/],
    [{ operation: 'ip_policies.create', body: { name: 'x' } }, 'ERR_INVALID_FIELD', /name/],
    [
      { operation: 'ip_policies.create', parameters: { wait: 'applied' } },
      'ERR_INVALID_FIELD',
      /applies the change set/,
    ],
    [{ operation: 'ip_policies.delete', parameters: { id: 'ipp_x' } }, 'ERR_NOT_FOUND', /IP policy/],
    [
      { operation: 'ip_policies.delete', parameters: { id: '{{changes[1].id}}' } },
      'ERR_INVALID_FIELD',
      /earlier change/,
    ],
    [
      { operation: 'ip_policies.delete', parameters: { id: '{{changes[0].id}}' }, body: {} },
      'ERR_INVALID_FIELD',
      /body/,
    ],
  ]
  for (const [change, code, message] of cases) {
    const refused = await draft(admin, [{ operation: 'ip_policies.create' }, change])
    assert.deepEqual([refused.body.error_code, refused.body.details.code], ['ERR_CHANGE_REFUSED', code], refused.text)
    assert.match(refused.body.msg, message)
  }
  assert.deepEqual((await admin('GET', '/change_sets')).body.change_sets, [])
})

test('a change set is not applied to what was changed since, until its changes are sent again', async () => {
  const admin = await plane.newAccount()
  const { body: policy } = await admin('POST', '/ip_policies', { description: 'before' })
  const changes = [
    { operation: 'ip_policies.update', parameters: { id: policy.id }, body: { metadata: 'mine' } },
    { operation: 'ip_policies.create' },
  ]
  const path = await drafted(admin, changes)
  await admin('PATCH', policy.uri, { description: 'theirs' })
  assert.deepEqual((await admin('POST', `${path}/preview`, {})).body.conflicts, [policy.id])
  const refused = await apply(admin, path)
  assertRefused(refused, 409, 'ERR_CHANGE_SET_CONFLICT')
  assert.equal(refused.body.details.resources, policy.id)
  assert.equal((await admin('GET', '/ip_policies')).body.ip_policies.length, 1)
  await admin('PATCH', path, { description: 'only the words' })
  assertRefused(await apply(admin, path), 409, 'ERR_CHANGE_SET_CONFLICT')
  assert.equal((await admin('PATCH', path, { changes })).status, 200)
  assert.equal((await apply(admin, path)).status, 200)
  const { description, metadata } = (await admin('GET', policy.uri)).body
  assert.deepEqual([description, metadata], ['theirs', 'mine'])
})

test('adding changes at the end makes no conflict, and keeps one that there is', async () => {
  const admin = await plane.newAccount()
  const [{ body: policy }, { body: other }] = [
    await admin('POST', '/ip_policies', {}),
    await admin('POST', '/ip_policies', {}),
  ]
  const remove = { operation: 'ip_policies.replace_rules', parameters: { id: policy.id }, body: { rules: [] } }
  const rule = (cidr: string) => ({
    ...{ operation: 'ip_policies.replace_rules', parameters: { id: policy.id } },
    body: { rules: [{ action: 'allow', cidr }] },
  })
  const mine = { operation: 'ip_policies.update', parameters: { id: other.id }, body: { metadata: 'mine' } }
  const path = await drafted(admin, [rule('192.0.2.1/32')])
  const add = async (changes: Change[]) => {
    const before = (await admin('GET', path)).body.changes
    assert.equal((await admin('PATCH', path, { changes: [...before, ...changes] })).status, 200)
    return (await admin('POST', `${path}/preview`, {})).body.conflicts
  }
  assert.deepEqual(await add([rule('192.0.2.2/32'), mine]), [])
  await admin('PATCH', other.uri, { description: 'theirs' })
  assert.deepEqual(await add([remove]), [other.id])
  await admin('PUT', `${policy.uri}/rules`, { rules: [{ action: 'deny', cidr: '192.0.2.9/32' }] })
  assert.deepEqual((await add([{ operation: 'ip_policies.create' }])).toSorted(), [policy.id, other.id].toSorted())
  assertRefused(await apply(admin, path), 409, 'ERR_CHANGE_SET_CONFLICT')
  const { changes } = (await admin('GET', path)).body
  assert.equal((await admin('PATCH', path, { changes })).status, 200)
  assert.equal((await apply(admin, path)).status, 200)
})

test('a conflict is noticed where the number of rules is the same', async () => {
  const admin = await plane.newAccount()
  const { body: policy } = await admin('POST', '/ip_policies', {})
  const put = (cidr: string) => ({ rules: [{ action: 'allow', cidr }] })
  await admin('PUT', `${policy.uri}/rules`, put('192.0.2.1/32'))
  const path = await drafted(admin, [
    { operation: 'ip_policies.replace_rules', parameters: { id: policy.id }, body: put('192.0.2.2/32') },
  ])
  assert.deepEqual((await admin('POST', `${path}/preview`, {})).body.conflicts, [])
  await admin('PUT', `${policy.uri}/rules`, put('192.0.2.3/32'))
  assert.deepEqual((await admin('POST', `${path}/preview`, {})).body.conflicts, [policy.id])
  assertRefused(await apply(admin, path), 409, 'ERR_CHANGE_SET_CONFLICT')
})

test('two who apply one change set at once make its changes once', async () => {
  const admin = await plane.newAccount()
  const path = await drafted(admin, [{ operation: 'ip_policies.create' }])
  const both = await Promise.all([0, 1].map((process) => admin('POST', `${path}/apply`, {}, { process })))
  assert.deepEqual(both.map(({ status }) => status).toSorted(), [200, 409])
  assert.equal((await admin('GET', '/ip_policies')).body.ip_policies.length, 1)
})

test('a key may propose what its scopes do not include, but not apply it', async () => {
  const admin = await plane.newAccount()
  const { body: key } = await admin('POST', '/api_keys', { scopes: ['change_sets.*', 'ip_policies.list'] })
  const proposer = plane.clientFor(key.token)
  const path = await drafted(proposer, [{ operation: 'ip_policies.create' }])
  const refused = await apply(proposer, path)
  assertRefused(refused, 409, 'ERR_CHANGE_REFUSED')
  assert.equal(refused.body.details.code, 'ERR_SCOPE')
  assert.deepEqual((await admin('GET', '/ip_policies')).body.ip_policies, [])
  assert.equal((await apply(admin, path)).status, 200)
})

test('a role limits what can be proposed, and members do not see what only admins can change', async () => {
  const admin = await plane.newAccount()
  const [member, viewer] = [await newUser(plane, admin, 'member'), await newUser(plane, admin, 'viewer')]
  const changes = [{ operation: 'users.update', parameters: { id: member.ownerId }, body: { role: 'admin' } }]
  const refused = await draft(member, changes)
  assertRefused(refused, 409, 'ERR_CHANGE_REFUSED')
  assert.equal(refused.body.details.code, 'ERR_FORBIDDEN')
  assertRefused(await draft(viewer, [{ operation: 'ip_policies.create' }]), 403, 'ERR_FORBIDDEN')
  const path = await drafted(admin, changes)
  for (const other of [member, viewer]) {
    assertRefused(await other('GET', path), 404, 'ERR_NOT_FOUND')
    assert.deepEqual((await other('GET', '/change_sets')).body.change_sets, [])
  }
  assertRefused(await apply(member, path), 404, 'ERR_NOT_FOUND')
})

test('a dry run applies a change set and undoes it', async () => {
  const admin = await plane.newAccount()
  const path = await drafted(admin, published)
  const tried = await apply(admin, path, '?dry_run=true')
  assert.equal(tried.status, 200, tried.text)
  assert.equal(tried.body.differences.length, published.length + 1)
  assert.equal(tried.body.response.generation, null)
  assert.deepEqual((await admin('GET', '/ip_policies')).body.ip_policies, [])
  assert.equal((await apply(admin, path)).status, 200)
})

test('a change set replaces and deletes the rules of several policies, and of one twice', async () => {
  const admin = await plane.newAccount()
  const policies = await Promise.all([1, 2, 3].map(() => policyWith(admin, 'allow 192.0.2.0/24', 'allow 198.51.100.1')))
  const [first, second, third] = policies as [string, string, string]
  const put = (id: string, cidr: string) => ({
    operation: 'ip_policies.replace_rules',
    parameters: { id },
    body: { rules: [{ action: 'allow', cidr }] },
  })
  const remove = (id: string) => ({ operation: 'ip_policies.delete', parameters: { id } })
  const [once, twice] = ['192.0.2.0/24', '203.0.113.0/24']
  const set = [put(first, once), put(first, twice), put(second, twice), remove(second), remove(third)]
  const applied = await apply(admin, await drafted(admin, set))
  assert.equal(applied.status, 200, applied.text)
  const { body } = await admin('GET', `/ip_policy_rules?ip_policy_id=${first}`)
  assert.deepEqual(
    body.ip_policy_rules.map(({ cidr }: { cidr: string }) => cidr),
    [twice],
  )
  for (const id of [second, third]) assert.equal((await admin('GET', `/ip_policies/${id}`)).status, 404)
})
