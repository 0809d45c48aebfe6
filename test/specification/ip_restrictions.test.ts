import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Answer } from '../harness/client.ts'
import { sharedControlPlane } from '../harness/shared_control_plane.ts'

const plane = await sharedControlPlane({ after })
const admin = await plane.newAccount()

const rfc3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/
const newPolicy = async (): Promise<string> => (await admin('POST', '/ip_policies', {})).body.id
// Type agent: nothing in here is about this API's own door, so that no test can shut it.
const create = async (fields: object = {}) => {
  const created = await admin('POST', '/ip_restrictions', {
    type: 'agent',
    ip_policy_ids: [await newPolicy()],
    ...fields,
  })
  assert.equal(created.status, 201, created.text)
  return created.body
}
function assertRefused({ status, body, text }: Answer, expected: number, code: string, field?: string): void {
  assert.equal(status, expected, text)
  assert.equal(body.error_code, code)
  assert.equal(body.details.field, field)
}

test('§2 a restriction is identified by ipx_<id>, a policy by ipp_<id>', async () => {
  const { id, ip_policies } = await create()
  assert.match(id, /^ipx_[0-7][0-9a-z]{25}$/)
  assert.match(ip_policies[0].id, /^ipp_[0-7][0-9a-z]{25}$/)
})

test('§2.2 id: no two restrictions have the same', async () => {
  const policy = await newPolicy()
  const all = await Promise.all(Array.from({ length: 20 }, () => create({ ip_policy_ids: [policy] })))
  assert.equal(new Set(all.map(({ id }) => id)).size, 20)
})

test('§2.2 uri: the restriction is found there', async () => {
  const created = await create()
  assert.equal(created.uri, `https://api.gatehouse.test/ip_restrictions/${created.id}`)
  assert.deepEqual((await admin('GET', created.uri)).body, created)
})

test('§2.2 created_at: the time of creation in RFC 3339, which no update changes', async () => {
  const earliest = Date.now() - 5_000
  const { created_at, uri } = await create()
  assert.match(created_at, rfc3339)
  assert.ok(Date.parse(created_at) >= earliest && Date.parse(created_at) <= Date.now() + 5_000)
  assert.equal((await admin('PATCH', uri, { description: 'later' })).body.created_at, created_at)
})

test('§2.2 description and metadata: optional, kept as sent, and left out of responses when not set', async () => {
  const texts = { description: 'büro – 事務所 🏢', metadata: '{"ticket": 4711, "note": "a\\nb"}' }
  const created = await create(texts)
  assert.deepEqual({ description: created.description, metadata: created.metadata }, texts)
  for (const nothing of [undefined, '', null]) {
    const { uri } = await create({ description: nothing, metadata: nothing })
    const { body } = await admin('GET', uri)
    assert.ok(!('description' in body) && !('metadata' in body), `${nothing}`)
  }
})

test('§2.2 enforced: true and false come back as they were sent', async () => {
  for (const enforced of [true, false]) assert.equal((await create({ enforced })).enforced, enforced)
})

test('§2.2 type: dashboard, api, agent and endpoints, and nothing else', async () => {
  for (const type of ['dashboard', 'api', 'agent', 'endpoints']) assert.equal((await create({ type })).type, type)
  for (const type of ['edges', 'API', 'agents', '', null, 1, ['api']]) {
    const answer = await admin('POST', '/ip_restrictions', { type, ip_policy_ids: [await newPolicy()] })
    assertRefused(answer, 400, 'ERR_INVALID_FIELD', 'type')
  }
})

test('§2.2 ip_policies: an array of Ref objects, also for one policy', async () => {
  const policy = await newPolicy()
  const { ip_policies } = await create({ ip_policy_ids: [policy] })
  assert.deepEqual(ip_policies, [{ id: policy, uri: `https://api.gatehouse.test/ip_policies/${policy}` }])
})

test('§2.2 ip_policy_ids is a list of strings in requests, and never in responses', async () => {
  for (const sent of ['ipp_x', [1], [null], [['ipp_x']], {}, null, true]) {
    const { status, body } = await admin('POST', '/ip_restrictions', { type: 'agent', ip_policy_ids: sent })
    assert.equal(status, 400)
    assert.match(body.details.field, /^ip_policy_ids(\[0\])?$/)
  }
  assert.ok(!('ip_policy_ids' in (await create())))
})

test('§2.2 a restriction has the documented fields and no others', async () => {
  const { uri } = await create({ description: 'd', metadata: 'm' })
  const documented = ['created_at', 'description', 'enforced', 'id', 'ip_policies', 'metadata', 'type', 'uri']
  assert.deepEqual(Object.keys((await admin('GET', uri)).body).sort(), documented)
})

test('§2.3 Ref: id and uri of the policy, which is found there', async () => {
  const { ip_policies } = await create()
  assert.deepEqual(Object.keys(ip_policies[0]).sort(), ['id', 'uri'])
  assert.equal((await admin('GET', ip_policies[0].uri)).body.id, ip_policies[0].id)
})

test('§2.6 IP restriction list: ip_restrictions, uri and next_page_uri, which is null when there is no next page', async () => {
  const other = await plane.newAccount()
  assert.deepEqual((await other('GET', '/ip_restrictions')).body, {
    ip_restrictions: [],
    uri: 'https://api.gatehouse.test/ip_restrictions',
    next_page_uri: null,
  })
})

test('§4.2 Create IP Restriction: 201 with the IP restriction', async () => {
  const fields = { description: 'd', metadata: 'm', enforced: true, type: 'endpoints' }
  const policy = await newPolicy()
  const { status, body } = await admin('POST', '/ip_restrictions', { ...fields, ip_policy_ids: [policy] })
  assert.equal(status, 201)
  const { id, uri, created_at, ip_policies, ...rest } = body
  assert.deepEqual(rest, fields)
  assert.equal(ip_policies[0].id, policy)
  assert.ok(id && uri && created_at)
})

test('§4.2 Get IP Restriction: 200 with the IP restriction', async () => {
  const created = await create({ description: 'read me' })
  const { status, body } = await admin('GET', `/ip_restrictions/${created.id}`)
  assert.equal(status, 200)
  assert.deepEqual(body, created)
})

test('§4.2 List IP Restrictions: 200 with all restrictions on the account, newest first, and no others', async () => {
  const other = await plane.newAccount()
  const { body: policy } = await other('POST', '/ip_policies', {})
  const created = []
  for (const type of ['dashboard', 'agent', 'endpoints'])
    created.unshift((await other('POST', '/ip_restrictions', { type, ip_policy_ids: [policy.id] })).body)
  const { status, body } = await other('GET', '/ip_restrictions')
  assert.equal(status, 200)
  assert.deepEqual(body.ip_restrictions, created)
})

test('§4.2 Update IP Restriction: 200 with the IP restriction, changed in every field that was sent', async () => {
  const created = await create({ description: 'old', metadata: 'old', enforced: false })
  const policy = await newPolicy()
  const changes = { description: 'new', metadata: 'new', enforced: true }
  const { status, body } = await admin('PATCH', created.uri, { ...changes, ip_policy_ids: [policy] })
  assert.equal(status, 200)
  assert.deepEqual(
    { ...body, ip_policies: body.ip_policies.map(({ id }: { id: string }) => id) },
    {
      ...created,
      ...changes,
      ip_policies: [policy],
    },
  )
  assert.deepEqual((await admin('GET', created.uri)).body, body)
})

test('§4.2 Update IP Restriction: omitted fields keep their values, and {} changes nothing', async () => {
  const created = await create({ description: 'd', metadata: 'm', enforced: true })
  assert.deepEqual((await admin('PATCH', created.uri, {})).body, created)
  assert.deepEqual((await admin('PATCH', created.uri, { enforced: false })).body, { ...created, enforced: false })
  const { metadata, ...withoutMetadata } = created
  assert.equal(metadata, 'm')
  assert.deepEqual((await admin('PATCH', created.uri, { metadata: '', enforced: true })).body, withoutMetadata)
})

test('§4.2 Update IP Restriction: id is the path parameter; the body may repeat it, and name no other', async () => {
  const [one, other] = [await create(), await create()]
  assert.equal((await admin('PATCH', one.uri, { id: one.id })).status, 200)
  assertRefused(await admin('PATCH', one.uri, { id: other.id }), 400, 'ERR_INVALID_FIELD', 'id')
})

test('§4.2 Delete IP Restriction: 204 with no body, and then it is gone, and its policies are not', async () => {
  const { uri, ip_policies } = await create()
  const { status, text } = await admin('DELETE', uri)
  assert.equal(status, 204)
  assert.equal(text, '')
  for (const method of ['GET', 'DELETE']) assertRefused(await admin(method, uri), 404, 'ERR_NOT_FOUND')
  assertRefused(await admin('PATCH', uri, {}), 404, 'ERR_NOT_FOUND')
  assert.equal((await admin('GET', ip_policies[0].uri)).status, 200)
})

test('§4.2 rule 1: type is not an update parameter', async () => {
  const { uri, type } = await create()
  for (const sent of ['api', 'dashboard', 'other', null].filter((other) => other !== type))
    assertRefused(await admin('PATCH', uri, { type: sent }), 400, 'ERR_INVALID_FIELD', 'type')
  assert.equal((await admin('PATCH', uri, { type })).status, 200, 'it is what it was')
})

test('§4.2 rule 2: a next page is reached through next_page_uri, until all have been seen once', async () => {
  const other = await plane.newAccount()
  const { body: policy } = await other('POST', '/ip_policies', {})
  const ids: string[] = []
  for (let i = 0; i < 5; i++)
    ids.unshift((await other('POST', '/ip_restrictions', { type: 'agent', ip_policy_ids: [policy.id] })).body.id)
  const seen: string[] = []
  let next: string | null = '/ip_restrictions?limit=2'
  while (next) {
    const { body }: Answer = await other('GET', next)
    assert.ok(body.ip_restrictions.length)
    seen.push(...body.ip_restrictions.map(({ id }: { id: string }) => id))
    next = body.next_page_uri
  }
  assert.deepEqual(seen, ids)
})

test('§4.2 rule 3: type and ip_policy_ids are required on create; enforced is false when left out', async () => {
  const ip_policy_ids = [await newPolicy()]
  assertRefused(await admin('POST', '/ip_restrictions', { ip_policy_ids }), 400, 'ERR_INVALID_FIELD', 'type')
  assertRefused(await admin('POST', '/ip_restrictions', { type: 'agent' }), 400, 'ERR_INVALID_FIELD', 'ip_policy_ids')
  assert.equal((await create()).enforced, false)
})

test('contract: enforced is a boolean and nothing that looks like one', async () => {
  const { uri } = await create()
  for (const enforced of ['true', 'false', 0, 1, null, {}])
    assertRefused(await admin('PATCH', uri, { enforced }), 400, 'ERR_INVALID_FIELD', 'enforced')
})

test('contract: ip_policies keeps the order sent, on create and on update', async () => {
  const [a, b, c] = [await newPolicy(), await newPolicy(), await newPolicy()]
  const orderOf = ({ ip_policies }: { ip_policies: { id: string }[] }) => ip_policies.map(({ id }) => id)
  const created = await create({ ip_policy_ids: [b, c, a] })
  assert.deepEqual(orderOf(created), [b, c, a])
  assert.deepEqual(orderOf((await admin('PATCH', created.uri, { ip_policy_ids: [c, a, b] })).body), [c, a, b])
  assert.deepEqual(orderOf((await admin('GET', created.uri)).body), [c, a, b])
})

test("contract: no policy, a repeated one, or another account's: 400, and nothing changes", async () => {
  const restriction = await create()
  const policy = await newPolicy()
  const foreign = (await (await plane.newAccount())('POST', '/ip_policies', {})).body.id
  const absent = `ipp_${'0'.repeat(26)}`
  const refusals: [string[], string][] = [
    [[], 'ip_policy_ids'],
    [[policy, policy], 'ip_policy_ids[1]'],
    [[policy, foreign], 'ip_policy_ids[1]'],
    [[policy, absent], 'ip_policy_ids[1]'],
    [[policy, 'ipp_nonsense'], 'ip_policy_ids[1]'],
    [[policy, restriction.id], 'ip_policy_ids[1]'],
  ]
  for (const [ip_policy_ids, field] of refusals) {
    const create = await admin('POST', '/ip_restrictions', { type: 'agent', ip_policy_ids })
    assertRefused(create, 400, 'ERR_INVALID_FIELD', field)
    assertRefused(await admin('PATCH', restriction.uri, { ip_policy_ids }), 400, 'ERR_INVALID_FIELD', field)
  }
  assert.deepEqual((await admin('GET', restriction.uri)).body, restriction)
})

for (const [field, limit] of [
  ['description', 255],
  ['metadata', 4096],
] as const) {
  test(`§8 ${field}: at most ${limit} bytes, however many characters that is`, async () => {
    const { uri } = await create()
    for (const character of ['a', 'ß', '€', '🏢']) {
      const width = Buffer.byteLength(character)
      const longest = character.repeat(Math.floor(limit / width)) + 'a'.repeat(limit % width)
      assert.equal((await create({ [field]: longest }))[field], longest)
      assert.equal((await admin('PATCH', uri, { [field]: longest })).body[field], longest)
      const tooLong = { [field]: `${longest}a` }
      assertRefused(await admin('PATCH', uri, tooLong), 400, 'ERR_INVALID_FIELD', field)
      const answer = await admin('POST', '/ip_restrictions', {
        type: 'agent',
        ip_policy_ids: [await newPolicy()],
        ...tooLong,
      })
      assertRefused(answer, 400, 'ERR_INVALID_FIELD', field)
    }
  })
}
