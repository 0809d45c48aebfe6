import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Answer } from '../harness/client.ts'
import { newBot, newUser } from '../harness/principals.ts'
import { sharedControlPlane } from '../harness/shared_control_plane.ts'

const plane = await sharedControlPlane({ after })
const admin = await plane.newAccount()

const create = async (fields: object = {}) => (await admin('POST', '/api_keys', fields)).body
function assertRefused({ status, body }: Answer, expected: number, code: string, field?: string): void {
  assert.equal(status, expected)
  assert.equal(body.error_code, code)
  assert.equal(body.details.field, field)
}

test('§4.1 Create API Key: 201 with the API key including token', async () => {
  const { status, body } = await admin('POST', '/api_keys', {
    description: 'ci',
    metadata: '{"team":"edge"}',
    owner_id: admin.adminId,
  })
  assert.equal(status, 201)
  assert.equal(body.description, 'ci')
  assert.equal(body.metadata, '{"team":"edge"}')
  assert.equal(body.owner_id, admin.adminId)
  assert.equal(typeof body.token, 'string')
})

test('§4.1 Create API Key: every field is optional', async () => {
  const { status, body } = await admin('POST', '/api_keys', {})
  assert.equal(status, 201)
  for (const field of ['created_at', 'id', 'owner_id', 'token', 'uri'])
    assert.equal(typeof body[field], 'string', field)
  for (const field of ['description', 'metadata']) assert.ok(!(field in body), field)
})

test("§4.1 Create API Key: '' and null mean that description and metadata are not set", async () => {
  for (const nothing of ['', null]) {
    const { status, body } = await admin('POST', '/api_keys', { description: nothing, metadata: nothing })
    assert.equal(status, 201)
    assert.ok(!('description' in body) && !('metadata' in body))
  }
})

test('§4.1 Create API Key: a field that is not listed is refused and named', async () => {
  for (const field of ['id', 'uri', 'token', 'created_at', 'name', 'Description'])
    assertRefused(await admin('POST', '/api_keys', { [field]: 'x' }), 400, 'ERR_INVALID_FIELD', field)
})

test('§4.1 Get API Key: 200 with the API key (token null)', async () => {
  const created = await create({ description: 'read me', metadata: 'm' })
  const { status, body } = await admin('GET', `/api_keys/${created.id}`)
  assert.equal(status, 200)
  assert.deepEqual(body, { ...created, token: null })
})

test('§4.1 List API Keys: 200 with the API key list envelope', async () => {
  const { status, body } = await admin('GET', '/api_keys')
  assert.equal(status, 200)
  assert.deepEqual(Object.keys(body).sort(), ['keys', 'next_page_uri', 'uri'])
})

test("§4.1 List API Keys: lists all keys of this account, with any owner, and no other account's", async () => {
  const [mine, theirs] = [await plane.newAccount(), await plane.newAccount()]
  const member = await newUser(plane, mine)
  const bot = await newBot(plane, mine)
  const { body: extra } = await member('POST', '/api_keys', {})
  const { body: foreign } = await theirs('POST', '/api_keys', {})
  for (const client of [mine, member, bot]) {
    const ids = (await client('GET', '/api_keys')).body.keys.map(({ id }: { id: string }) => id)
    assert.equal(ids.length, 4)
    for (const id of [extra.id, member.keyId, bot.keyId]) assert.ok(ids.includes(id))
    assert.ok(!ids.includes(foreign.id))
  }
})

test('§4.1 Update API Key: 200 with the API key (token null)', async () => {
  const created = await create({ description: 'before', metadata: 'm' })
  const { status, body } = await admin('PATCH', `/api_keys/${created.id}`, { description: 'after', metadata: 'n' })
  assert.equal(status, 200)
  assert.deepEqual(body, { ...created, description: 'after', metadata: 'n', token: null })
  assert.deepEqual((await admin('GET', created.uri)).body, body)
})

test('§4.1 Update API Key: an omitted field keeps its value', async () => {
  const created = await create({ description: 'd', metadata: 'm' })
  assert.deepEqual((await admin('PATCH', created.uri, { description: 'e' })).body.metadata, 'm')
  assert.deepEqual((await admin('PATCH', created.uri, { metadata: 'n' })).body.description, 'e')
})

test('§4.1 Update API Key: an empty update changes nothing and succeeds', async () => {
  const created = await create({ description: 'd', metadata: 'm' })
  const { status, body } = await admin('PATCH', created.uri, {})
  assert.equal(status, 200)
  assert.deepEqual(body, { ...created, token: null })
})

test("§4.1 Update API Key: '' and null clear description and metadata", async () => {
  for (const nothing of ['', null]) {
    const { uri } = await create({ description: 'd', metadata: 'm' })
    const { status, body } = await admin('PATCH', uri, { description: nothing, metadata: nothing })
    assert.equal(status, 200)
    assert.ok(!('description' in body) && !('metadata' in body))
    assert.deepEqual((await admin('GET', uri)).body, body)
  }
})

test('§4.1 Update API Key: id is the path parameter; the body may repeat it and not name another', async () => {
  const [key, other] = [await create(), await create({ description: 'other' })]
  const repeated = await admin('PATCH', key.uri, { id: key.id, description: 'repeated' })
  assert.equal(repeated.status, 200)
  assert.equal(repeated.body.description, 'repeated')
  for (const id of [other.id, admin.adminId, '', null])
    assertRefused(await admin('PATCH', key.uri, { id, description: 'stolen' }), 400, 'ERR_INVALID_FIELD', 'id')
  assert.equal((await admin('GET', key.uri)).body.description, 'repeated')
  assert.equal((await admin('GET', other.uri)).body.description, 'other')
})

test('§4.1 Delete API Key: 204 with no body', async () => {
  const { uri } = await create()
  const { status, text, headers } = await admin('DELETE', uri)
  assert.equal(status, 204)
  assert.equal(text, '')
  assert.equal(headers.get('content-type'), null)
  assertRefused(await admin('GET', uri), 404, 'ERR_NOT_FOUND')
  assertRefused(await admin('DELETE', uri), 404, 'ERR_NOT_FOUND')
})

test('§4.1 Delete API Key: a Content-Type header without a body is tolerated', async () => {
  for (const type of ['application/json', 'application/json; charset=utf-8', 'text/plain']) {
    const { uri } = await create()
    assert.equal((await admin('DELETE', uri, undefined, { headers: { 'content-type': type } })).status, 204)
  }
})

test('§4.1 Delete API Key: the key in use may delete itself, and the next call with it gets 401', async () => {
  const key = await create()
  const itself = plane.clientFor(key.token)
  assert.equal((await itself('DELETE', key.uri)).status, 204)
  assertRefused(await itself('GET', '/caller'), 401, 'ERR_UNAUTHENTICATED')
  assertRefused(await itself('DELETE', key.uri), 401, 'ERR_UNAUTHENTICATED')
})

test('§4.1 rule 2: the token is returned once, in the create response; later reads return it as null', async () => {
  const { uri, token } = await create()
  assert.equal(typeof token, 'string')
  for (let read = 0; read < 3; read++) assert.equal((await admin('GET', uri)).body.token, null)
  assert.equal((await plane.clientFor(token)('GET', uri)).body.token, null)
})

test('§4.1 rule 3: Update accepts description and metadata only; owner_id is not an update parameter', async () => {
  const bot = await newBot(plane, admin)
  const key = await create({ description: 'mine' })
  for (const [field, value] of Object.entries({
    owner_id: bot.ownerId,
    token: 'x',
    uri: `${key.uri}x`,
    created_at: 'x',
  }))
    assertRefused(await admin('PATCH', key.uri, { [field]: value }), 400, 'ERR_INVALID_FIELD', field)
  assert.equal((await admin('PATCH', key.uri, { owner_id: key.owner_id })).status, 200, 'it is what it was')
  assert.deepEqual((await admin('GET', key.uri)).body, { ...key, token: null })
})

test("§4.1 a malformed id, an absent one and another account's get the same 404, byte for byte but for the operation id", async () => {
  const stranger = await plane.newAccount()
  const { body: foreign } = await stranger('POST', '/api_keys', {})
  const { id: deleted, uri } = await create()
  await admin('DELETE', uri)
  const ids = [
    foreign.id,
    deleted,
    'ak_00000000000000000000000000',
    'ak_80000000000000000000000000',
    admin.adminId,
    deleted.toUpperCase(),
    'ak_',
    'x',
    '%00',
    'a%2Fb',
    // Longer than a router's default limit for a parameter.
    'x'.repeat(101),
    'x'.repeat(8_000),
  ]
  for (const [method, body] of [['GET'], ['DELETE'], ['PATCH', {}]] as const) {
    for (const id of ids) {
      const answer = await admin(method, `/api_keys/${id}`, body)
      const operationId = answer.headers.get('operation-id') ?? ''
      assert.deepEqual(
        [answer.status, answer.text.replaceAll(operationId, '…')],
        [
          404,
          '{"error_code":"ERR_NOT_FOUND","status_code":404,"msg":"This account has no such API key.","details":{"operation_id":"…"},"doc_url":"https://api.gatehouse.test/docs/reference/errors.html#err_not_found"}',
        ],
        `${method} ${id}`,
      )
    }
  }
  assert.equal((await stranger('GET', foreign.uri)).status, 200)
})
