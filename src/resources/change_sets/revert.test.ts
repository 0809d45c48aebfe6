import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Answer, Client } from '../../../test/harness/client.ts'
import { assertRefused } from '../../../test/harness/fixtures.ts'
import { newUser } from '../../../test/harness/principals.ts'
import { sharedControlPlane } from '../../../test/harness/shared_control_plane.ts'
import { factsOf } from '../../../test/reverts/records.ts'

const plane = await sharedControlPlane({ after })

async function done(answer: Promise<Answer>) {
  const { status, body, text, headers } = await answer
  assert.ok(status < 300, text)
  return { ...body, operationId: headers.get('operation-id') }
}
/** The event of a change, by the operation id of its response. */
async function eventOf(admin: Client, change: Promise<Answer>): Promise<string> {
  const { operationId } = await done(change)
  const { audit_events } = (await admin('GET', '/audit_events?limit=20')).body
  return audit_events.find((event: { operation_id: string }) => event.operation_id === operationId).id
}
const revert = (as: Client, id: string) =>
  as('POST', `/${id.startsWith('ev_') ? 'audit_events' : 'change_sets'}/${id}/revert`, {})
const apply = (as: Client, { id }: { id: string }) => as('POST', `/change_sets/${id}/apply`, {})
async function undo(as: Client, id: string): Promise<string> {
  const draft = await done(revert(as, id))
  await done(apply(as, draft))
  return draft.id
}
async function applied(as: Client, changes: object[]): Promise<{ id: string; applied_resources: string[] }> {
  const { id } = await done(as('POST', '/change_sets', { changes }))
  return done(as('POST', `/change_sets/${id}/apply`, {}))
}

test('an update is undone in the fields that it changed, and in no other', async () => {
  const admin = await plane.newAccount()
  const policy = await done(admin('POST', '/ip_policies', { description: 'one', metadata: 'm' }))
  const event = await eventOf(admin, admin('PATCH', policy.uri, { description: 'two' }))
  const later = await eventOf(admin, admin('PATCH', policy.uri, { metadata: 'theirs' }))
  const draft = await done(revert(admin, event))
  assert.deepEqual(draft.changes, [
    { operation: 'ip_policies.update', parameters: { id: policy.id }, body: { description: 'one' } },
  ])
  await done(apply(admin, draft))
  const { description, metadata } = await done(admin('GET', policy.uri))
  assert.deepEqual([description, metadata], ['one', 'theirs'])

  await done(admin('PATCH', policy.uri, { metadata: 'mine' }))
  const newest = await eventOf(admin, admin('PATCH', policy.uri, { metadata: null }))
  const refused = await revert(admin, later)
  assertRefused(refused, 409, 'ERR_REVERT_CONFLICT')
  assert.match(
    refused.body.msg,
    new RegExp(`${policy.id} has another metadata \\(changed by ${newest}, ip_policies.update\\)`),
  )
  const { resources, fields, events } = refused.body.details
  assert.deepEqual([resources, fields, events], [policy.id, 'metadata', newest])
  assert.equal((await done(admin('GET', policy.uri))).metadata, undefined)
})

test('a change set is undone as a whole, and what it deleted is created again with the references as they were', async () => {
  const admin = await plane.newAccount()
  const create = [
    { operation: 'ip_policies.create', body: { description: 'office' } },
    { operation: 'static_backends.create', body: { address: 'app.internal:80' } },
    { operation: 'weighted_backends.create', body: { backends: { '{{changes[1].id}}': 3 } } },
    { operation: 'https_edges.create', body: {} },
    {
      operation: 'https_edge_routes.create',
      parameters: { edge_id: '{{changes[3].id}}' },
      body: {
        ...{ match_type: 'path_prefix', match: '/', backend: { backend_id: '{{changes[2].id}}' } },
        ip_restriction: { ip_policy_ids: ['{{changes[0].id}}'] },
      },
    },
  ]
  const made = await applied(admin, create)
  const [policy = '', app = '', group = '', edge = '', route = ''] = made.applied_resources
  const at = { edge_id: edge, id: route }
  const removed = await applied(admin, [
    { operation: 'https_edge_routes.ip_restriction.delete', parameters: at },
    { operation: 'https_edges.delete', parameters: { id: edge } },
    { operation: 'weighted_backends.delete', parameters: { id: group } },
    { operation: 'static_backends.delete', parameters: { id: app } },
    { operation: 'ip_policies.delete', parameters: { id: policy } },
  ])
  assert.deepEqual((await done(admin('GET', '/edges/https'))).https_edges, [])
  const draft = await done(revert(admin, removed.id))
  assert.equal((await done(admin('GET', '/ip_policies'))).ip_policies.length, 0)
  await done(apply(admin, draft))
  const [
    {
      routes: [again],
    },
  ] = (await done(admin('GET', '/edges/https'))).https_edges
  const [newPolicy] = (await done(admin('GET', '/ip_policies'))).ip_policies
  const [newGroup] = (await done(admin('GET', '/backends/weighted'))).backends
  const [newApp] = (await done(admin('GET', '/backends/static'))).backends
  assert.deepEqual(again.ip_restriction.ip_policy_ids, [newPolicy.id])
  assert.equal(again.backend.backend_id, newGroup.id)
  assert.deepEqual(newGroup.backends, { [newApp.id]: 3 })
  assert.equal((await done(admin('GET', `/change_sets/${removed.id}`))).state, 'reverted')
  assertRefused(await revert(admin, removed.id), 409, 'ERR_NOT_REVERSIBLE')

  // What created the former ones has nothing left that it could undo.
  const gone = await revert(admin, made.id)
  assertRefused(gone, 409, 'ERR_REVERT_CONFLICT')
  assert.match(gone.body.msg, new RegExp(`${route} cannot be put back`))
  await undo(admin, draft.id)
  assert.deepEqual((await done(admin('GET', '/ip_policies'))).ip_policies, [])
  assert.equal((await done(admin('GET', `/change_sets/${draft.id}`))).state, 'reverted')
})

test('what was created is not deleted with what others have added to it or made of it since', async () => {
  const admin = await plane.newAccount()
  const create = () => admin('POST', '/ip_policies', { description: 'one' })
  const created = create()
  const [event, { id }] = [await eventOf(admin, created), (await created).body]
  const draft = await done(revert(admin, event))
  const addRule = () => admin('POST', '/ip_policy_rules', { ip_policy_id: id, action: 'allow', cidr: '192.0.2.0/24' })
  const rule = await done(addRule())
  assertRefused(await apply(admin, draft), 409, 'ERR_CHANGE_SET_CONFLICT')
  const refused = await revert(admin, event)
  assertRefused(refused, 409, 'ERR_REVERT_CONFLICT')
  assert.match(refused.body.msg, /has rules that are not from it/)
  await done(admin('DELETE', rule.uri))
  const restriction = await done(admin('POST', '/ip_restrictions', { type: 'agent', ip_policy_ids: [id] }))
  const used = await revert(admin, event)
  assertRefused(used, 409, 'ERR_REVERT_CONFLICT')
  assert.ok(used.body.msg.includes(restriction.id), used.text)
  await done(admin('DELETE', restriction.uri))
  await done(admin('PATCH', `/ip_policies/${id}`, { description: 'two' }))
  assert.match((await revert(admin, event)).body.msg, /has another description \(changed by ev_/)
  await done(admin('PATCH', `/ip_policies/${id}`, { description: 'one' }))
  await undo(admin, event)
  assertRefused(await admin('GET', `/ip_policies/${id}`), 404, 'ERR_NOT_FOUND')
})

test('what the audit does not have is not invented', async () => {
  const admin = await plane.newAccount()
  const policy = await done(admin('POST', '/ip_policies', {}))
  const rules = { rules: [{ cidr: '192.0.2.0/24', action: 'allow', description: 'x' }] }
  const replaced = await eventOf(admin, admin('PUT', `${policy.uri}/rules`, rules))
  const deleted = await eventOf(admin, admin('DELETE', policy.uri))
  for (const event of [replaced, deleted]) {
    const refused = await revert(admin, event)
    assertRefused(refused, 409, 'ERR_NOT_REVERSIBLE')
    assert.match(refused.body.msg, /rules/)
  }
})

test('undoing needs the right to propose, applying the right to make the changes, and others see no event', async () => {
  const [admin, other] = [await plane.newAccount(), await plane.newAccount()]
  const [member, viewer] = [await newUser(plane, admin), await newUser(plane, admin, 'viewer')]
  const policy = await done(admin('POST', '/ip_policies', { description: 'one' }))
  const event = await eventOf(admin, admin('PATCH', policy.uri, { description: 'two' }))
  const forAdmins = await eventOf(
    admin,
    admin('POST', '/ip_restrictions', { type: 'agent', ip_policy_ids: [policy.id] }),
  )
  assertRefused(await revert(other, event), 404, 'ERR_NOT_FOUND')
  assertRefused(await revert(viewer, event), 403, 'ERR_FORBIDDEN')
  assertRefused(await revert(member, forAdmins), 403, 'ERR_FORBIDDEN')
  const limited = async (scopes: string[]) =>
    plane.clientFor((await done(admin('POST', '/api_keys', { scopes }))).token)
  assertRefused(await revert(await limited(['audit_events.*']), event), 403, 'ERR_SCOPE')
  assertRefused(await revert(await limited(['change_sets.create']), event), 403, 'ERR_SCOPE')
  const proposer = await limited(['audit_events.revert', 'change_sets.*'])
  const draft = await done(revert(proposer, event))
  assertRefused(await apply(proposer, draft), 409, 'ERR_CHANGE_REFUSED')
  assert.equal((await done(admin('GET', policy.uri))).description, 'two')
  await done(apply(member, await done(revert(member, event))))
  assert.equal((await done(admin('GET', policy.uri))).description, 'one')
  const forAdminsOnly = await done(revert(admin, forAdmins))
  assertRefused(await member('GET', `/change_sets/${forAdminsOnly.id}`), 404, 'ERR_NOT_FOUND')
})

test('however many drafts undo a change, and however many apply them at once, it is undone once', async () => {
  const admin = await plane.newAccount()
  const policy = await done(admin('POST', '/ip_policies', { description: 'one' }))
  const event = await eventOf(admin, admin('DELETE', policy.uri))
  const drafts: { id: string }[] = []
  for (let count = 0; count < 6; count++) drafts.push(await done(revert(admin, event)))
  const answers = await Promise.all(drafts.map((draft) => apply(admin, draft)))
  assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 409, 409, 409, 409, 409])
  assert.equal((await done(admin('GET', '/ip_policies'))).ip_policies.length, 1)
  assert.match((await revert(admin, event)).body.msg, /chs_\w+ has undone it/)
})

test('a draft whose changes are edited is not the one that undoes anything any more', async () => {
  const admin = await plane.newAccount()
  const policy = await done(admin('POST', '/ip_policies', { description: 'one' }))
  const event = await eventOf(admin, admin('PATCH', policy.uri, { description: 'two' }))
  const draft = await done(revert(admin, event))
  assert.deepEqual([draft.reverts_id, draft.description], [event, 'Undo the change of IP policy two'])
  assert.equal((await done(admin('PATCH', draft.uri, { description: 'words' }))).reverts_id, event)
  const edited = await done(admin('PATCH', draft.uri, { changes: [{ operation: 'ip_policies.create' }] }))
  assert.equal(edited.reverts_id, null)
  await done(apply(admin, draft))
  await undo(admin, event)
  const unapplied = await done(admin('POST', '/change_sets', { changes: [{ operation: 'ip_policies.create' }] }))
  assertRefused(await revert(admin, unapplied.id), 409, 'ERR_NOT_REVERSIBLE')
})

test('edges get the same headers in the same order, whichever way they were set', async () => {
  const admin = await plane.newAccount()
  const headers = { 'X-Second': '2', 'X-A': '1', Accept: 'text/html' }
  const backend = await done(admin('POST', '/backends/http_response', { headers }))
  const edge = await done(admin('POST', '/edges/https', {}))
  const route = await done(
    admin('POST', `/edges/https/${edge.id}/routes`, {
      ...{ match_type: 'path_prefix', match: '/', backend: { backend_id: backend.id } },
      ...{ request_headers: { add: headers }, response_headers: { add: headers } },
    }),
  )
  const facts = () => factsOf(plane, admin.accountId)
  const before = await facts()
  const parameters = { edge_id: edge.id, id: route.id }
  await applied(
    admin,
    ['request_headers', 'response_headers'].map((name) => ({
      ...{ operation: `https_edge_routes.${name}.replace`, parameters, body: { add: headers } },
    })),
  )
  await applied(admin, [
    { operation: 'http_response_backends.update', parameters: { id: backend.id }, body: { headers } },
  ])
  assert.deepEqual(await facts(), before, 'by change sets')
  for (const name of ['request_headers', 'response_headers'])
    await undo(admin, await eventOf(admin, admin('DELETE', `${route.uri}/${name}`)))
  await undo(admin, await eventOf(admin, admin('PATCH', backend.uri, { headers: {} })))
  assert.deepEqual(await facts(), before, 'by undoing')
})
