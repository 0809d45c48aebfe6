import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Answer } from '../harness/client.ts'
import { newBot, newUser } from '../harness/principals.ts'
import { sharedControlPlane } from '../harness/shared_control_plane.ts'

const plane = await sharedControlPlane({ after })
const admin = await plane.newAccount()
const member = await newUser(plane, admin)
const bot = await newBot(plane, admin)

function assertRefused({ status, body }: Answer, expected: number, code: string, field?: string): void {
  assert.equal(status, expected)
  assert.equal(body.error_code, code)
  assert.equal(body.details.field, field)
}

test('§4.1 rule 1: an admin may give an owner_id other than themselves, of a User or of a Bot', async () => {
  for (const owner of [member, bot]) {
    const { status, body } = await admin('POST', '/api_keys', { owner_id: owner.ownerId })
    assert.equal(status, 201)
    assert.equal(body.owner_id, owner.ownerId)
    assert.equal((await plane.clientFor(body.token)('GET', '/caller')).body.owner_id, owner.ownerId)
  }
})

test('§4.1 rule 1: a second admin may do so as well', async () => {
  const second = await newUser(plane, admin, 'admin')
  assert.equal((await second('POST', '/api_keys', { owner_id: admin.adminId })).body.owner_id, admin.adminId)
})

test('§4.1 rule 1: a caller who is not an admin may not give another owner_id, and nothing is created', async () => {
  const before = (await admin('GET', '/api_keys')).body.keys.length
  for (const [caller, other] of [
    [member, bot.ownerId],
    [member, admin.adminId],
    [bot, member.ownerId],
    [bot, admin.adminId],
  ] as const)
    assertRefused(await caller('POST', '/api_keys', { owner_id: other }), 403, 'ERR_FORBIDDEN')
  assert.equal((await admin('GET', '/api_keys')).body.keys.length, before)
})

test('§4.1 rule 1: when owner_id is omitted, it is the authenticated User or Bot', async () => {
  for (const [caller, id] of [
    [admin, admin.adminId],
    [member, member.ownerId],
    [bot, bot.ownerId],
  ] as const)
    assert.equal((await caller('POST', '/api_keys', {})).body.owner_id, id)
})

test('§4.1 rule 1: everyone may name themselves', async () => {
  for (const caller of [member, bot])
    assert.equal((await caller('POST', '/api_keys', { owner_id: caller.ownerId })).status, 201)
})

test('§4.1 rule 1: the owner must be an active User or Bot of the account', async () => {
  const stranger = await plane.newAccount()
  const [gone, inactive] = [await newUser(plane, admin), await newBot(plane, admin)]
  await admin('DELETE', gone.ownerUri)
  await admin('PATCH', inactive.ownerUri, { active: false })
  for (const owner_id of [
    stranger.adminId,
    gone.ownerId,
    inactive.ownerId,
    'usr_00000000000000000000000000',
    // A user's identifier under a bot's prefix, and the other way round: they would be the same row.
    member.ownerId.replace('usr_', 'bot_'),
    bot.ownerId.replace('bot_', 'usr_'),
  ])
    assertRefused(await admin('POST', '/api_keys', { owner_id }), 400, 'ERR_INVALID_FIELD', 'owner_id')
})

test('§4.1 rule 1: an owner_id that is not the identifier of a User or Bot is refused and named', async () => {
  for (const owner_id of ['', null, 'me', bot.keyId, admin.accountId, `${member.ownerId} `, [member.ownerId]])
    assertRefused(await admin('POST', '/api_keys', { owner_id }), 400, 'ERR_INVALID_FIELD', 'owner_id')
})

test('§4.1 rule 1: being refused does not reveal whether the other owner exists', async () => {
  const stranger = await plane.newAccount()
  for (const owner_id of [stranger.adminId, 'usr_00000000000000000000000000', admin.adminId]) {
    const { status, body } = await member('POST', '/api_keys', { owner_id })
    assert.equal(status, 403)
    assert.equal(body.msg, 'Only admins can create a key for another owner.')
  }
})

test('§5.3 everyone may read any key of the account, and change and delete their own', async () => {
  for (const caller of [member, bot]) {
    const { body: own } = await caller('POST', '/api_keys', {})
    const { body: other } = await admin('POST', '/api_keys', { description: 'shared' })
    assert.equal((await caller('GET', other.uri)).body.description, 'shared')
    assert.equal((await caller('PATCH', own.uri, { description: 'own' })).body.description, 'own')
    assert.equal((await caller('DELETE', own.uri)).status, 204)
  }
})

test("§5.3 only an admin may change or delete another owner's key", async () => {
  for (const caller of [member, bot]) {
    const { body: key } = await admin('POST', '/api_keys', { description: 'kept' })
    assertRefused(await caller('PATCH', key.uri, { description: 'stolen' }), 403, 'ERR_FORBIDDEN')
    assertRefused(await caller('PATCH', key.uri, {}), 403, 'ERR_FORBIDDEN')
    assertRefused(await caller('DELETE', key.uri), 403, 'ERR_FORBIDDEN')
    assert.equal((await admin('GET', key.uri)).body.description, 'kept')
    const { body: theirs } = await caller('POST', '/api_keys', {})
    assert.equal((await admin('PATCH', theirs.uri, { description: 'by admin' })).body.description, 'by admin')
    assert.equal((await admin('DELETE', theirs.uri)).status, 204)
  }
})

test('§5.3 a user who stops being an admin may no longer create keys for others, from the next request on', async () => {
  const second = await newUser(plane, admin, 'admin')
  assert.equal((await second('POST', '/api_keys', { owner_id: bot.ownerId })).status, 201)
  await admin('PATCH', second.ownerUri, { role: 'member' })
  assert.equal((await second('POST', '/api_keys', { owner_id: bot.ownerId })).status, 403)
})
