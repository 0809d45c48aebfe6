import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Answer } from '../harness/client.ts'
import { policyWith, restrict } from '../harness/ip.ts'
import { newBot, newUser } from '../harness/principals.ts'
import { sharedControlPlane } from '../harness/shared_control_plane.ts'

const plane = await sharedControlPlane({ after })
const admin = await plane.newAccount()

const create = async (fields: object = {}) => (await admin('POST', '/ip_policies', fields)).body
function assertRefused({ status, body, text }: Answer, expected: number, code: string, field?: string): void {
  assert.equal(status, expected, text)
  assert.equal(body.error_code, code)
  assert.equal(body.details.field, field)
}

test('POST /ip_policies: 201 with id, uri, created_at, description and metadata', async () => {
  const { status, body } = await admin('POST', '/ip_policies', { description: 'office', metadata: '{}' })
  assert.equal(status, 201)
  const { id, uri, created_at, ...rest } = body
  assert.match(id, /^ipp_[0-7][0-9a-z]{25}$/)
  assert.equal(uri, `https://api.gatehouse.test/ip_policies/${id}`)
  assert.match(created_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  assert.deepEqual(rest, { description: 'office', metadata: '{}' })
})

test('POST /ip_policies: every field is optional, and left out of responses when not set', async () => {
  for (const fields of [{}, { description: '', metadata: '' }, { description: null, metadata: null }])
    assert.deepEqual(Object.keys(await create(fields)).sort(), ['created_at', 'id', 'uri'])
})

test('POST /ip_policies: a field that is not listed is refused and named', async () => {
  for (const field of ['id', 'uri', 'rules', 'action', 'name'])
    assertRefused(await admin('POST', '/ip_policies', { [field]: 'x' }), 400, 'ERR_INVALID_FIELD', field)
})

test('GET /ip_policies/{id}: 200 with the policy', async () => {
  const created = await create({ description: 'read me' })
  const { status, body } = await admin('GET', created.uri)
  assert.equal(status, 200)
  assert.deepEqual(body, created)
})

test('GET /ip_policies: the list field is ip_policies, newest first, in pages', async () => {
  const other = await plane.newAccount()
  const created = []
  for (let i = 0; i < 3; i++) created.unshift((await other('POST', '/ip_policies', { description: `${i}` })).body)
  const { body: first } = await other('GET', '/ip_policies?limit=2')
  assert.deepEqual(Object.keys(first).sort(), ['ip_policies', 'next_page_uri', 'uri'])
  assert.equal(first.uri, 'https://api.gatehouse.test/ip_policies')
  const { body: second } = await other('GET', first.next_page_uri)
  assert.equal(second.next_page_uri, null)
  assert.deepEqual([...first.ip_policies, ...second.ip_policies], created)
})

test('PATCH /ip_policies/{id}: 200 with the policy; omitted fields keep their values', async () => {
  const created = await create({ description: 'old', metadata: 'm' })
  const { status, body } = await admin('PATCH', created.uri, { id: created.id, description: 'new' })
  assert.equal(status, 200)
  assert.deepEqual(body, { ...created, description: 'new' })
  assert.deepEqual((await admin('PATCH', created.uri, {})).body, body)
})

test('DELETE /ip_policies/{id}: 204, and then the policy and its rules are gone', async () => {
  const id = await policyWith(admin, 'allow 10.0.0.0/8')
  const { body: rules } = await admin('GET', `/ip_policy_rules?ip_policy_id=${id}`)
  assert.equal((await admin('DELETE', `/ip_policies/${id}`)).status, 204)
  for (const uri of [`/ip_policies/${id}`, rules.ip_policy_rules[0].uri])
    assertRefused(await admin('GET', uri), 404, 'ERR_NOT_FOUND')
})

test('DELETE of a policy in use: 409 that names all its users, until the last is gone', async () => {
  const id = await policyWith(admin)
  const users = [
    await restrict(admin, { type: 'agent', ip_policy_ids: [id] }),
    await restrict(admin, { type: 'endpoints', ip_policy_ids: [id, await policyWith(admin)] }),
  ]
  const refused = await admin('DELETE', `/ip_policies/${id}`)
  assertRefused(refused, 409, 'ERR_IP_POLICY_IN_USE')
  assert.equal(refused.body.details.used_by, users.map((user) => user.id).join(', '))
  await admin('DELETE', users[0].uri)
  assert.equal((await admin('DELETE', `/ip_policies/${id}`)).body.details.used_by, users[1].id)
  await admin('PATCH', users[1].uri, { ip_policy_ids: [await policyWith(admin)] })
  assert.equal((await admin('DELETE', `/ip_policies/${id}`)).status, 204)
})

test("another account's policy, an absent and a malformed id are the same 404", async () => {
  const foreign = (await (await plane.newAccount())('POST', '/ip_policies', {})).body.id
  const bodies = new Set<string>()
  for (const id of [foreign, `ipp_${'0'.repeat(26)}`, 'ipp_x', `ipx_${'0'.repeat(26)}`]) {
    for (const [method, path, body] of [
      ['GET', '', undefined],
      ['PATCH', '', {}],
      ['DELETE', '', undefined],
      ['PUT', '/rules', { rules: [] }],
    ] as const) {
      const answer = await admin(method, `/ip_policies/${id}${path}`, body)
      assertRefused(answer, 404, 'ERR_NOT_FOUND')
      bodies.add(answer.text.replace(/op_\w+/, ''))
    }
  }
  assert.equal(bodies.size, 1)
})

test('members and bots manage policies, but only admins those that a restriction uses', async () => {
  for (const person of [await newUser(plane, admin), await newBot(plane, admin)]) {
    const id = await policyWith(person, 'allow 10.0.0.0/8')
    const { body: rules } = await person('GET', `/ip_policy_rules?ip_policy_id=${id}`)
    const rule = rules.ip_policy_rules[0].uri
    assert.equal((await person('PATCH', rule, { description: 'mine' })).status, 200)
    await restrict(admin, { type: 'agent', ip_policy_ids: [id] })
    const changes = [
      await person('POST', '/ip_policy_rules', { ip_policy_id: id, action: 'allow', cidr: '::/0' }),
      await person('PATCH', rule, { cidr: '0.0.0.0/0' }),
      await person('DELETE', rule),
      await person('PUT', `/ip_policies/${id}/rules`, { rules: [] }),
    ]
    for (const answer of changes) assertRefused(answer, 403, 'ERR_FORBIDDEN')
    assert.equal((await admin('DELETE', rule)).status, 204)
  }
})
