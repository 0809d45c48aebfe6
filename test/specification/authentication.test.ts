import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Answer } from '../harness/client.ts'
import { newBot, newUser } from '../harness/principals.ts'
import { type HeaderLine, rawExchange } from '../harness/raw.ts'
import { sharedControlPlane } from '../harness/shared_control_plane.ts'

const plane = await sharedControlPlane({ after })
const admin = await plane.newAccount()
const { token } = admin

/** The very headers given, because fetch would merge repeated ones into one line. */
const withAuthorization = (...values: string[]): Promise<Answer> => {
  const lines = values.map((value): HeaderLine => ['Authorization', value])
  return rawExchange(plane, { method: 'GET', path: '/caller', headers: [['Service-Version', '2'], ...lines] })
}

/** The same answer to any wrong credential: it neither says what was wrong nor repeats any of it. */
function assertUnauthenticated({ status, headers, body, text }: Answer, what: string): void {
  assert.equal(status, 401, what)
  assert.equal(headers.get('www-authenticate'), 'Bearer', what)
  assert.deepEqual(body, {
    error_code: 'ERR_UNAUTHENTICATED',
    status_code: 401,
    msg: "Send 'Authorization: Bearer <token>' with the token of an active API key.",
    details: { operation_id: headers.get('operation-id') },
    doc_url: 'https://api.gatehouse.test/docs/reference/errors.html#err_unauthenticated',
  })
  const whole = JSON.stringify([...headers]) + text
  for (const secret of [token.slice(0, 16), token.slice(-8), 's3cret', 'czNjcmV0'])
    assert.ok(!whole.includes(secret), `${what} echoes ${secret}`)
}

test('§5.1 a request with Authorization: Bearer <API_KEY> speaks for the owner of that key', async () => {
  const { status, body } = await withAuthorization(`Bearer ${token}`)
  assert.equal(status, 200)
  assert.equal(body.owner_id, admin.adminId)
})

test('§5.1 the scheme is Bearer in any case, as HTTP has it', async () => {
  for (const scheme of ['bearer', 'BEARER', 'bEaReR'])
    assert.equal((await withAuthorization(`${scheme} ${token}`)).status, 200)
  assertUnauthenticated(await withAuthorization('bearer s3cret'), 'lower-case scheme')
})

test('§5.1 a request without the Authorization header gets 401', async () => {
  assertUnauthenticated(await withAuthorization(), 'missing')
})

test('§5.1 two Authorization headers get 401, even when both are good', async () => {
  assertUnauthenticated(await withAuthorization(`Bearer ${token}`, `Bearer ${token}`), 'twice the same')
  assertUnauthenticated(await withAuthorization(`Bearer ${token}`, 'Bearer s3cret'), 'the first good')
  assertUnauthenticated(await withAuthorization('Bearer s3cret', `Bearer ${token}`), 'the last good')
  assertUnauthenticated(await withAuthorization(`Bearer ${token}, Bearer ${token}`), 'in one line')
})

test('§5.1 any other scheme or form gets 401', async () => {
  for (const value of [
    '',
    'Bearer',
    'Bearer ',
    token,
    `Basic ${token}`,
    'Basic dXNlcjpzM2NyZXQ=',
    `Token ${token}`,
    `Bearer${token}`,
    `Bearer  ${token}`,
    `Bearer\t${token}`,
    `Bearer "${token}"`,
    `Bearer ${token} s3cret`,
    `Bearer token=${token}`,
  ])
    assertUnauthenticated(await withAuthorization(value), JSON.stringify(value))
})

test('§5.1 the bearer value is the whole token of an API key: a shortened, lengthened or mistyped one gets 401', async () => {
  const swapped = token.replace(/(.)(.)$/, '$2$1')
  for (const value of [
    token.slice(0, -1),
    `${token}0`,
    token.slice('gatehouse_'.length),
    token.toUpperCase(),
    token.replace('gatehouse_', 'gatehouse-'),
    ...(swapped === token ? [] : [swapped]),
    's3cret',
    'x'.repeat(8_000),
  ])
    assertUnauthenticated(await withAuthorization(`Bearer ${value}`), value)
})

test('§5.1 a token anywhere else than in the Authorization header does not count', async () => {
  const version: HeaderLine = ['Service-Version', '2']
  for (const headers of [
    [version, ['Proxy-Authorization', `Bearer ${token}`]],
    [version, ['X-Api-Key', token]],
    [version, ['Cookie', `token=${token}`]],
  ] as HeaderLine[][])
    assertUnauthenticated(await rawExchange(plane, { method: 'GET', path: '/caller', headers }), String(headers))
  const inQuery = await rawExchange(plane, { method: 'GET', path: '/caller?access_token=s3cret', headers: [version] })
  assertUnauthenticated(inQuery, 'in the query')
})

test('§5.1 every operation asks for a key', async () => {
  for (const [method, path] of [
    ['POST', '/api_keys'],
    ['GET', '/api_keys'],
    ['GET', '/api_keys/ak_00000000000000000000000000'],
    ['PATCH', '/api_keys/ak_00000000000000000000000000'],
    ['DELETE', '/api_keys/ak_00000000000000000000000000'],
  ] as const)
    assertUnauthenticated(
      await rawExchange(plane, { method, path, headers: [['Service-Version', '2']] }),
      `${method} ${path}`,
    )
})

test("§5.2 a key's token is issued once, in the response to the create operation, and works from then on", async () => {
  const { body } = await admin('POST', '/api_keys', {})
  assert.equal((await withAuthorization(`Bearer ${body.token}`)).body.api_key.id, body.id)
  const { body: other } = await admin('POST', '/api_keys', {})
  assert.notEqual(other.token, body.token)
})

test('§5.2 changing a key leaves its token as it is', async () => {
  const { body: key } = await admin('POST', '/api_keys', {})
  await admin('PATCH', key.uri, { description: 'changed' })
  assert.equal((await withAuthorization(`Bearer ${key.token}`)).status, 200)
})

test('§5.3 a key belongs to a User or a Bot, and speaks for it with its role', async () => {
  for (const [person, role] of [
    [await newUser(plane, admin, 'admin'), 'admin'],
    [await newUser(plane, admin, 'member'), 'member'],
    [await newBot(plane, admin), 'member'],
  ] as const) {
    const { body } = await person('GET', '/caller')
    assert.equal(body.owner_id, person.ownerId)
    assert.equal(body.role, role)
    assert.equal(body.account_id, admin.accountId)
  }
})

test('§5.3 only admins may create a key owned by another owner', async () => {
  const [member, bot] = [await newUser(plane, admin), await newBot(plane, admin)]
  assert.equal((await admin('POST', '/api_keys', { owner_id: bot.ownerId })).status, 201)
  assert.equal((await member('POST', '/api_keys', { owner_id: bot.ownerId })).status, 403)
  assert.equal((await bot('POST', '/api_keys', { owner_id: member.ownerId })).status, 403)
})

test('§5 a deleted key gets 401 from the next request on', async () => {
  const { body: key } = await admin('POST', '/api_keys', {})
  assert.equal((await withAuthorization(`Bearer ${key.token}`)).status, 200)
  await admin('DELETE', key.uri)
  assertUnauthenticated(await withAuthorization(`Bearer ${key.token}`), 'deleted')
})

test('§5 the keys of an inactive owner get 401 from the next request on, and work again when it is reactivated', async () => {
  for (const person of [await newUser(plane, admin), await newBot(plane, admin)]) {
    await admin('PATCH', person.ownerUri, { active: false })
    assertUnauthenticated(await withAuthorization(`Bearer ${person.token}`), 'inactive')
    await admin('PATCH', person.ownerUri, { active: true })
    assert.equal((await person('GET', '/caller')).status, 200)
  }
})

test('§5 the keys of a deleted owner get 401 from the next request on', async () => {
  for (const person of [await newUser(plane, admin), await newBot(plane, admin)]) {
    assert.equal((await admin('DELETE', person.ownerUri)).status, 204)
    assertUnauthenticated(await withAuthorization(`Bearer ${person.token}`), 'owner deleted')
    assert.equal((await admin('GET', `/api_keys/${person.keyId}`)).status, 404)
  }
})
