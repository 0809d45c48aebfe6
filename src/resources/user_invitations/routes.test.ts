import assert from 'node:assert/strict'
import { hash, randomUUID } from 'node:crypto'
import { test } from 'node:test'
import type { Answer, Client } from '../../../test/harness/client.ts'
import { publicUrl } from '../../../test/harness/client.ts'
import { assertRefused } from '../../../test/harness/fixtures.ts'
import { policyWith, restrict } from '../../../test/harness/ip.ts'
import { newIndependentAdmin, newUser } from '../../../test/harness/principals.ts'
import { sharedControlPlane } from '../../../test/harness/shared_control_plane.ts'
import { many, run } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { newInvitationSecret } from '../../identity/token.ts'
import { toUuid } from '../../kernel/ids.ts'
import { deleteKeysOfExpiredInvitations } from './store.ts'

type Invited = { id: string; secret: string; invitation: Answer['body'] }

async function newInvited(admin: Client, role = 'viewer', body: object = {}): Promise<Invited> {
  const email = `${randomUUID()}@example.com`
  const { body: user } = await admin('POST', '/users', { name: 'Lena', email, role })
  return invite(admin, user.id, body)
}
async function invite(admin: Client, id: string, body: object = {}): Promise<Invited> {
  const created = await admin('POST', `/users/${id}/invitation`, body)
  assert.equal(created.status, 201, created.text)
  return { id, secret: created.body.link.split('#')[1], invitation: created.body }
}

/** As the page that the link leads to: without a token. */
const send = (client: Client, path: string, secret: string, ip = '192.0.2.1', process = 0) =>
  client('POST', path, { secret }, { headers: { authorization: undefined, 'x-forwarded-for': ip }, process })
const look = (client: Client, { secret }: Pick<Invited, 'secret'>, ip?: string) =>
  send(client, '/sign_in/invitation', secret, ip)
const accept = (client: Client, { secret }: Pick<Invited, 'secret'>, ip?: string, process?: number) =>
  send(client, '/sign_in/invitation/accept', secret, ip, process)

const stateOf = async (admin: Client, { id }: Invited) =>
  (await admin('GET', `/users/${id}/invitation`)).body.state as string
const eventsOf = async (admin: Client, id: string) =>
  (await admin('GET', `/audit_events?resource_id=${id}`)).body.audit_events.map(
    ({ operation }: { operation: string }) => operation,
  )

test('an invited person opens the link, gets a key with their own rights, and the link does nothing more', async (t) => {
  const plane = await sharedControlPlane(t)
  const admin = await plane.newAccount()
  const lena = await newInvited(admin)
  assert.match(
    lena.invitation.link,
    new RegExp(`^${publicUrl}/dashboard/invitation#gatehouse_invitation_[0-9A-Za-z]{49}$`),
  )
  const days = (Date.parse(lena.invitation.expires_at) - Date.parse(lena.invitation.created_at)) / 86_400_000
  assert.equal(days, 7)
  const { link, ...rest } = lena.invitation
  assert.deepEqual((await admin('GET', `/users/${lena.id}/invitation`)).body, { ...rest, link: null })

  const looked = await look(admin, lena)
  const { name, role, state, account_name } = looked.body
  assert.deepEqual([name, role, state, typeof account_name], ['Lena', 'viewer', 'waiting', 'string'])
  assert.equal((await look(admin, lena)).body.state, 'waiting', 'looking uses nothing up')
  const accepted = await accept(admin, lena)
  assert.equal(accepted.status, 200, accepted.text)
  const theirs = plane.clientFor(accepted.body.token)
  const { body: caller } = await theirs('GET', '/caller')
  assert.deepEqual([caller.owner_id, caller.role, caller.scopes], [lena.id, 'viewer', ['*']])
  const left = (Date.parse(caller.expires_at) - Date.now()) / 86_400_000
  assert.ok(left > 89 && left <= 90, `${left} days`)
  const { body: session } = await theirs('POST', '/dashboard_session', { token: theirs.token })
  assert.equal(session.owner_id, lena.id)

  for (const again of [await look(admin, lena), await accept(admin, lena)])
    assert.deepEqual(again.body, { state: 'accepted' })
  assert.equal(await stateOf(admin, lena), 'accepted')
  const { body: events } = await admin('GET', `/audit_events?resource_id=${lena.id}`)
  const [replayed, , used, made] = events.audit_events
  assert.deepEqual(
    [replayed.operation, replayed.after],
    ['sign_in.failed', { method: 'invitation', reason: 'accepted' }],
  )
  assert.deepEqual(
    [used.operation, used.owner_id, used.after.invitation.state],
    ['sign_in.accept_invitation', lena.id, 'accepted'],
  )
  assert.deepEqual([made.operation, made.after.invitation.state], ['users.invitation.create', 'waiting'])
  assert.ok(!JSON.stringify(events).includes('gatehouse_'))
  assert.deepEqual((await eventsOf(admin, caller.api_key.id)).slice(-2), [
    'sign_in.accept_invitation',
    'users.invitation.create',
  ])
})

test('only hashes are stored, and the key of an invitation that waits has a token that no one knows', async (t) => {
  const plane = await sharedControlPlane(t)
  const admin = await plane.newAccount()
  const lena = await newInvited(admin)
  const rows = await many<{ whole: string; secret_hash: Buffer; token_hash: Buffer }>(
    plane.db,
    sql`
    select i::text as whole, i.secret_hash, k.token_hash
    from user_invitations i join api_keys k on k.id = i.api_key_id where i.user_id = ${toUuid(lena.id as `usr_${string}`)}`,
  )
  assert.equal(rows.length, 1)
  assert.ok(!rows[0]?.whole.includes(lena.secret))
  assert.deepEqual(rows[0]?.secret_hash, hash('sha256', lena.secret, 'buffer'))
  assert.notDeepEqual(rows[0]?.token_hash, rows[0]?.secret_hash)
  assert.equal((await plane.clientFor(lena.secret)('GET', '/caller')).status, 401, 'the secret is no token')
})

test('a list of users says who has a link that waits, until when, and who has never signed in', async (t) => {
  const plane = await sharedControlPlane(t)
  const [admin, stranger] = [await plane.newAccount(), await plane.newAccount()]
  await newInvited(stranger)
  const { id } = (await admin('POST', '/users', { name: 'Lena', email: `${randomUUID()}@example.com` })).body
  const read = async () => {
    const { users } = (await admin('GET', '/users')).body
    const found = users.find((user: { id: string }) => user.id === id)
    const one = await admin('GET', `/users/${id}`)
    assert.deepEqual(one.body, found)
    const { has_signed_in, invitation_state, invitation_expires_at, invitation_api_key_id } = found
    return {
      etag: one.headers.get('etag'),
      is: [has_signed_in, invitation_state, invitation_expires_at, invitation_api_key_id],
    }
  }
  const never = await read()
  assert.deepEqual(never.is, [false, null, null, null])
  const { expires_at, api_key_id, ...rest } = (await invite(admin, id)).invitation
  const waiting = await read()
  assert.deepEqual(waiting, { etag: never.etag, is: [false, 'waiting', expires_at, api_key_id] })
  const renamed = await admin('PATCH', `/users/${id}`, { name: 'Lena B.' })
  assert.deepEqual(
    [renamed.body.has_signed_in, renamed.body.invitation_state, renamed.body.invitation_api_key_id],
    [false, 'waiting', api_key_id],
  )
  const [event] = (await admin('GET', `/audit_events?resource_id=${id}`)).body.audit_events
  assert.deepEqual(
    [event.operation, Object.keys(event.after).sort()],
    ['users.update', ['active', 'created_at', 'email', 'id', 'name', 'role', 'uri']],
  )
  await admin('DELETE', `/users/${id}/invitation`)
  assert.deepEqual((await read()).is, [false, 'withdrawn', expires_at, null])

  const again = await invite(admin, id)
  const { token } = (await accept(admin, again)).body
  await plane.clientFor(token)('POST', '/dashboard_session', { token })
  assert.deepEqual((await read()).is.slice(0, 2), [true, 'accepted'])
  await admin('DELETE', `/api_keys/${again.invitation.api_key_id}`)
  assert.deepEqual((await read()).is, [true, 'accepted', again.invitation.expires_at, null], 'a lost key was one')
  assert.equal(rest.user_id, id)
  const users: { name: string; has_signed_in: boolean }[] = (await admin('GET', '/users')).body.users
  assert.equal(users.find(({ name }) => name !== 'Lena B.')?.has_signed_in, true, 'who reads this')
})

test('one of several who accept an invitation at the same moment, on both processes, gets a key', async (t) => {
  const plane = await sharedControlPlane(t)
  const admin = await plane.newAccount()
  for (let round = 0; round < 3; round++) {
    const lena = await newInvited(admin)
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, index) => accept(admin, lena, undefined, index % 2)),
    )
    assert.equal(answers.filter(({ body }) => body.token).length, 1)
    assert.equal(answers.filter(({ body }) => body.state === 'accepted').length, 8)
    const token = answers.find(({ body }) => body.token)?.body.token
    assert.equal((await plane.clientFor(token)('GET', '/caller')).status, 200)
  }
})

test('an invitation ends when it is withdrawn, replaced or expired, and says which', async (t) => {
  const plane = await sharedControlPlane(t)
  const admin = await plane.newAccount()
  const withdrawn = await newInvited(admin)
  assert.equal((await admin('DELETE', `/users/${withdrawn.id}/invitation`)).status, 204)
  assert.deepEqual((await accept(admin, withdrawn)).body, { state: 'withdrawn' })
  assertRefused(await admin('DELETE', `/users/${withdrawn.id}/invitation`), 404, 'ERR_NOT_FOUND')
  assert.deepEqual((await eventsOf(admin, withdrawn.id)).slice(0, 2), ['sign_in.failed', 'users.invitation.delete'])

  const replaced = await newInvited(admin)
  const keysOf = async (id: string) => (await admin('GET', `/api_keys?owner_id=${id}`)).body.keys
  const newer = await invite(admin, replaced.id)
  assert.equal((await keysOf(replaced.id)).length, 1, 'the former key is gone')
  assert.deepEqual((await accept(admin, replaced, '198.18.0.1')).body, { state: 'unknown' })
  assert.ok((await accept(admin, newer)).body.token)

  const expired = await newInvited(admin, 'member', { expires_in_seconds: 60 })
  const age = (interval: string) =>
    run(
      plane.db,
      sql`update user_invitations set expires_at = now() - ${interval}::interval where user_id = ${toUuid(expired.id as `usr_${string}`)}`,
    )
  await age('1 second')
  assert.deepEqual((await accept(admin, expired)).body, { state: 'expired' })
  await deleteKeysOfExpiredInvitations(plane.db)
  assert.equal((await keysOf(expired.id)).length, 1)
  await age('25 hours')
  await deleteKeysOfExpiredInvitations(plane.db)
  assert.deepEqual(await keysOf(expired.id), [])
  assert.equal(await stateOf(admin, expired), 'expired')
  for (const expires_in_seconds of [59, 30 * 86_400 + 1, 1.5])
    assertRefused(
      await admin('POST', `/users/${expired.id}/invitation`, { expires_in_seconds }),
      400,
      'ERR_INVALID_FIELD',
      'expires_in_seconds',
    )
})

test('an invitation is no way around the end of a key, a user or the rights of who invited', async (t) => {
  const plane = await sharedControlPlane(t)
  const root = await plane.newAccount()
  const boss = await newUser(plane, root, 'admin')
  const ways: Record<string, (lena: Invited, keyUri: string) => Promise<Answer>> = {
    'its key was deleted': (_, uri) => root('DELETE', uri),
    'its key was rotated': (_, uri) => root('POST', `${uri}/rotate`, {}),
    'its key was ended': (_, uri) => root('PATCH', uri, { expires_at: '2020-01-01T00:00:00Z' }),
    'the user is inactive': ({ id }) => root('PATCH', `/users/${id}`, { active: false }),
    'who invited is no admin any more': () => root('PATCH', boss.ownerUri, { role: 'member' }),
  }
  for (const [way, end] of Object.entries(ways)) {
    const lena = await newInvited(boss)
    const ended = await end(lena, `/api_keys/${lena.invitation.api_key_id}`)
    assert.ok(ended.status < 300, ended.text)
    assert.deepEqual((await accept(root, lena)).body, { state: 'withdrawn' }, way)
    assert.equal(await stateOf(root, lena), 'withdrawn', way)
  }
  const boss2 = await newUser(plane, root, 'admin')
  const [stolen, gone] = [await newInvited(boss2, 'admin'), await newInvited(boss2)]
  await root('DELETE', `/users/${gone.id}`)
  assert.deepEqual((await accept(root, gone, '198.18.0.2')).body, { state: 'unknown' })
  await root('DELETE', `/api_keys/${boss2.keyId}?revoke_descendants=true`)
  assert.deepEqual((await accept(root, stolen)).body, { state: 'withdrawn' }, 'what a stolen key invited goes with it')
})

test('only admins with an unlimited key invite, and only users of their own account who are active', async (t) => {
  const plane = await sharedControlPlane(t)
  const [admin, stranger] = [await plane.newAccount(), await plane.newAccount()]
  const lena = await newInvited(admin, 'admin')
  const path = `/users/${lena.id}/invitation`
  const member = await newUser(plane, admin)
  for (const method of ['GET', 'POST', 'DELETE'])
    assertRefused(await member(method, path, method === 'POST' ? {} : undefined), 403, 'ERR_FORBIDDEN')
  for (const limits of [{ scopes: ['users.*'] }, { allowed_cidrs: ['127.0.0.0/8'] }]) {
    const { body: key } = await admin('POST', '/api_keys', limits)
    assertRefused(await plane.clientFor(key.token)('POST', path, {}), 403, 'ERR_SCOPE')
  }
  for (const method of ['GET', 'POST', 'DELETE'])
    assertRefused(await stranger(method, path, method === 'POST' ? {} : undefined), 404, 'ERR_NOT_FOUND')
  assert.equal(await stateOf(admin, lena), 'waiting')
  await admin('PATCH', `/users/${lena.id}`, { active: false })
  assertRefused(await admin('POST', path, {}), 403, 'ERR_FORBIDDEN')
})

test('a repeated request gets the same invitation without its link, and invitations are counted as keys', async (t) => {
  const { newAccount } = await sharedControlPlane(t)
  const admin = await newAccount()
  const lena = await newInvited(admin)
  const headers = { 'idempotency-key': randomUUID() }
  const first = await admin('POST', `/users/${lena.id}/invitation`, {}, { headers })
  const second = await admin('POST', `/users/${lena.id}/invitation`, {}, { headers })
  assert.deepEqual(second.body, { ...first.body, link: null })
  assert.equal(second.headers.get('idempotency-replayed'), 'true')
  assert.ok((await accept(admin, { secret: first.body.link.split('#')[1] })).body.token)
  const used = async () => (await admin('GET', '/caller')).body.quotas.api_keys.used
  const before = await used()
  for (let count = 0; count < 3; count++) await invite(admin, lena.id)
  assert.equal(await used(), before + 1, 'a user has one invitation at a time')
})

test('guesses get nothing, are limited, and leave nothing in any audit', async (t) => {
  const plane = await sharedControlPlane(t)
  const admin = await plane.newAccount()
  const lena = await newInvited(admin)
  const wrong = ['', 'x', newInvitationSecret(), `${lena.secret}x`, lena.secret.toLowerCase(), admin.token]
  for (const secret of wrong) assert.deepEqual((await look(admin, { secret }, '198.18.0.3')).body, { state: 'unknown' })
  const answers = await Promise.all(
    Array.from({ length: 20 }, () => accept(admin, { secret: newInvitationSecret() }, '198.18.0.3')),
  )
  const limited = answers.find(({ status }) => status === 429)
  assert.equal(limited?.body.error_code, 'ERR_TOO_MANY_ATTEMPTS')
  assert.ok(!(await eventsOf(admin, lena.id)).includes('sign_in.failed'))
  assert.ok((await accept(admin, lena, '198.18.0.3')).body.token, 'a good link works despite the others')
  const elsewhere = { headers: { authorization: undefined, 'sec-fetch-site': 'cross-site' } }
  assertRefused(await admin('POST', '/sign_in/invitation', { secret: lena.secret }, elsewhere), 403, 'ERR_OTHER_SITE')
})

test('from an address that may not use the dashboard the link is not used up', async (t) => {
  const plane = await sharedControlPlane(t)
  const admin = await plane.newAccount()
  const lena = await newInvited(admin)
  const policy = await policyWith(admin, 'allow 127.0.0.0/8', 'allow 192.0.2.0/24')
  await restrict(admin, { type: 'dashboard', ip_policy_ids: [policy], enforced: true })
  assertRefused(await accept(admin, lena, '203.0.113.5'), 403, 'ERR_IP_REFUSED')
  assert.equal(await stateOf(admin, lena), 'waiting')
  const accepted = await accept(admin, lena, '192.0.2.7')
  assert.ok(accepted.body.token, accepted.text)
})

test('an admin who came by a link does not approve the changes of who sent it', async (t) => {
  const plane = await sharedControlPlane(t)
  const admin = await plane.newAccount()
  const accepted = await accept(admin, await newInvited(admin, 'admin'))
  const theirs = plane.clientFor(accepted.body.token)
  const approver = await newIndependentAdmin(plane, admin)
  assert.equal((await admin('PUT', '/approval_policy', { required_for: ['ip_policies'] })).status, 200)
  const { body: set } = await admin('POST', '/ip_policies', { description: 'one' })
  const approve = (as: Client) => as('POST', `/change_sets/${set.id}/approve`, { content_sha256: set.content_sha256 })
  assertRefused(await approve(theirs), 403, 'ERR_NOT_INDEPENDENT')
  assert.equal((await approve(approver)).status, 200)
  // Changes of users need approval as well then, but an invitation is withdrawn at once.
  const { body: me } = await admin('GET', '/caller')
  await invite(admin, me.owner_id)
  assert.equal((await admin('DELETE', `/users/${me.owner_id}/invitation`)).status, 204)
})
