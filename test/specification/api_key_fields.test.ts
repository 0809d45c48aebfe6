import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { publicUrl } from '../harness/client.ts'
import { newBot } from '../harness/principals.ts'
import { headersOf, json, rawExchange } from '../harness/raw.ts'
import { sharedControlPlane } from '../harness/shared_control_plane.ts'

const plane = await sharedControlPlane({ after })
const admin = await plane.newAccount()

const create = async (fields: object = {}) => (await admin('POST', '/api_keys', fields)).body

/** What a key has beyond the specification; a client written from that alone does not look at it. */
const added = {
  expires_at: null,
  last_used_at: null,
  last_used_ip: null,
  previous_token: null,
  rotated_at: null,
  scopes: ['*'],
  allowed_cidrs: [],
}

test('§2.1 API key: the fields are id, uri, description, metadata, created_at, token and owner_id, all strings', async () => {
  const key = await create({ description: 'ci', metadata: '{}' })
  const { created_by_key_id, ...rest } = key
  const specified = Object.keys(rest).filter((field) => !Object.hasOwn(added, field))
  assert.deepEqual(specified.sort(), ['created_at', 'description', 'id', 'metadata', 'owner_id', 'token', 'uri'])
  for (const field of specified) assert.equal(typeof key[field], 'string', field)
  assert.equal(created_by_key_id, (await admin('GET', '/caller')).body.api_key.id)
  for (const [field, usual] of Object.entries(added))
    assert.deepEqual(key[field], usual, `${field} of a key that is like any other`)
})

test('§2.1 id: a unique identifier of the API key, with the prefix ak_', async () => {
  const [one, other] = [await create(), await create()]
  assert.match(one.id, /^ak_[0-7][0-9a-hjkmnp-tv-z]{25}$/)
  assert.notEqual(one.id, other.id)
})

test("§2.1 uri: the URI of this key's resource, where it can be read", async () => {
  const key = await create({ description: 'readable' })
  assert.equal(key.uri, `${publicUrl}/api_keys/${key.id}`)
  assert.equal((await admin('GET', key.uri)).body.id, key.id)
})

test('§2.1 uri: is under the public URL, independent of Host and forwarding headers', async () => {
  const lies = [
    ['Host', 'evil.example'],
    ['X-Forwarded-Host', 'evil.example'],
    ['X-Forwarded-Proto', 'gopher'],
    ['Forwarded', 'host=evil.example'],
  ] as const
  const headers = [...headersOf(admin.token), ...lies]
  const key = await create()
  const created = await rawExchange(plane, {
    method: 'POST',
    path: 'http://evil.example/api_keys',
    headers: [...headers, json],
    body: '{}',
  })
  assert.equal(created.status, 201)
  for (const [method, path] of [
    ['GET', `/api_keys/${key.id}`],
    ['GET', '/api_keys?limit=1'],
    ['GET', '/caller'],
  ] as const) {
    const { status, text } = await rawExchange(plane, { method, path, headers })
    assert.equal(status, 200)
    assert.ok(text.includes(publicUrl), path)
    assert.doesNotMatch(text, /evil|gopher/, path)
  }
  assert.doesNotMatch(created.text, /evil|gopher/)
})

test('§2.1 description: human-readable, optional, and kept as it was sent', async () => {
  assert.equal((await create({ description: ' Grüße an ci 🚀 ' })).description, ' Grüße an ci 🚀 ')
  assert.ok(!('description' in (await create())))
})

test('§2.1 metadata: arbitrary user-defined data, optional; serialized JSON in it comes back character for character', async () => {
  const metadata = '{ "team":"edge",\n\t"n": 1.0, "n": 2, "quote": "\\"" }'
  const key = await create({ metadata })
  assert.equal(key.metadata, metadata)
  assert.equal((await admin('GET', key.uri)).body.metadata, metadata)
  assert.ok(!('metadata' in (await create())))
})

test('§2.1 metadata: is a string; a JSON object is refused rather than turned into one', async () => {
  const { status, body } = await admin('POST', '/api_keys', { metadata: { team: 'edge' } })
  assert.equal(status, 400)
  assert.equal(body.details.field, 'metadata')
})

test('§2.1 created_at: the creation time in RFC 3339, in UTC with milliseconds', async () => {
  const before = Date.now()
  const { created_at, uri } = await create()
  const now = Date.now()
  assert.match(created_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  // A second either way: the database has its own clock.
  assert.ok(Date.parse(created_at) >= before - 1_000 && Date.parse(created_at) <= now + 1_000)
  await admin('PATCH', uri, { description: 'changed' })
  assert.equal((await admin('GET', uri)).body.created_at, created_at)
})

test('§2.1 token: is the bearer token for the Authorization header', async () => {
  const key = await create()
  assert.match(key.token, /^gatehouse_[0-9A-Za-z]{49}$/)
  assert.equal((await plane.clientFor(key.token)('GET', '/caller')).body.api_key.id, key.id)
})

test('§2.1 token: present only in the response to creation, null in every other response', async () => {
  const key = await create({ description: 'once' })
  const read = await admin('GET', key.uri)
  const changed = await admin('PATCH', key.uri, { description: 'twice' })
  const list = await admin('GET', '/api_keys')
  assert.equal(read.body.token, null)
  assert.equal(changed.body.token, null)
  for (const entry of list.body.keys) assert.equal(entry.token, null)
  for (const { text } of [read, changed, list]) assert.ok(!text.includes(key.token))
})

test('§2.1 owner_id: defaults to the authenticated User', async () => {
  assert.equal((await create()).owner_id, admin.adminId)
})

test('§2.1 owner_id: defaults to the authenticated Bot', async () => {
  const bot = await newBot(plane, admin)
  const { body } = await bot('POST', '/api_keys', {})
  assert.match(body.owner_id, /^bot_/)
  assert.equal(body.owner_id, bot.ownerId)
})

test('§2.1 list entries omit metadata and description when none is set', async () => {
  const bare = await create()
  const full = await create({ description: 'd', metadata: 'm' })
  const { keys } = (await admin('GET', '/api_keys?limit=2')).body
  assert.deepEqual(keys, [
    { ...full, token: null },
    { ...bare, token: null },
  ])
  assert.ok(!('metadata' in keys[1]) && !('description' in keys[1]))
})

for (const [field, limit] of [
  ['description', 255],
  ['metadata', 4096],
] as const) {
  test(`§8 ${field} of an API key: at most ${limit} bytes, on creation and on update`, async () => {
    const [fits, tooLong] = ['x'.repeat(limit), 'x'.repeat(limit + 1)]
    const created = await admin('POST', '/api_keys', { [field]: fits })
    assert.equal(created.status, 201)
    assert.equal(created.body[field], fits)
    const uri = (await create()).uri
    assert.equal((await admin('PATCH', uri, { [field]: fits })).body[field], fits)
    for (const refused of [
      await admin('POST', '/api_keys', { [field]: tooLong }),
      await admin('PATCH', uri, { [field]: tooLong }),
    ]) {
      assert.equal(refused.status, 400)
      assert.equal(refused.body.error_code, 'ERR_INVALID_FIELD')
      assert.equal(refused.body.details.field, field)
    }
    assert.equal((await admin('GET', uri)).body[field], fits)
  })
}
