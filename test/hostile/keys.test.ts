// Row 11 of the security review: what a leaked key leaves behind does not outlive the cure.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { one, run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { newUuid, toUuid } from '../../src/kernel/ids.ts'
import type { Client } from '../harness/client.ts'
import { startControlPlane } from '../harness/control_plane.ts'
import { assertRefused, make } from '../harness/fixtures.ts'
import { newBot, newUser } from '../harness/principals.ts'
import { signIn } from '../harness/session.ts'

const plane = await startControlPlane({ after }, { processes: 2 })
const inMs = (ms: number) => new Date(Date.now() + ms).toISOString()
const statusOf = async (token: string) => (await plane.clientFor(token)('GET', '/caller')).status
type Key = { id: string; uri: string; token: string; created_by_key_id: string | null }

/** A new key, created with the token of another. */
const childOf = async ({ token }: { token: string }, fields: object = {}): Promise<Key & Client> => {
  const key = await make(plane.clientFor(token), '/api_keys', fields)
  return Object.assign(plane.clientFor(key.token), key)
}
const keyOf = async (client: Client): Promise<string> => (await client('GET', '/caller')).body.api_key.id
const rotated = async (admin: Client, key: Key, overlap_seconds = 3_600): Promise<Client> => {
  const { status, body } = await admin('POST', `${key.uri}/rotate`, { overlap_seconds })
  assert.equal(status, 200)
  return plane.clientFor(body.token)
}

test('row 11: a key shows the key that created it, in sessions and after that key is deleted too', async () => {
  const admin = await plane.newAccount()
  const leaked = await childOf(admin)
  assert.equal(leaked.created_by_key_id, await keyOf(admin))
  const child = await childOf(leaked)
  const { body: fromSession } = await (await signIn(leaked))('POST', '/api_keys', {})
  for (const key of [child, fromSession]) assert.equal(key.created_by_key_id, leaked.id)
  const { body: first } = await admin('GET', `/api_keys/${await keyOf(admin)}`)
  assert.equal(first.created_by_key_id, null, 'a command on the server made it')
  await admin('DELETE', leaked.uri)
  assert.equal(await statusOf(child.token), 200, 'without revoke_descendants it lives on')
  assert.equal((await admin('GET', child.uri)).body.created_by_key_id, leaked.id)
  assertRefused(
    await admin('POST', '/api_keys', { created_by_key_id: child.id }),
    400,
    'ERR_INVALID_FIELD',
    'created_by_key_id',
  )
})

test('row 11: revoke_descendants deletes every key made with a leaked one, through sessions and deleted keys too, and audits each', async () => {
  const admin = await plane.newAccount()
  const bot = await newBot(plane, admin)
  const leaked = await childOf(admin)
  const child = await childOf(leaked)
  const middle = await childOf(child)
  const forBot = await childOf(middle, { owner_id: bot.ownerId })
  const { body: fromSession } = await (await signIn(middle))('POST', '/api_keys', {})
  // The thief removes a link of the chain.
  assert.equal((await middle('DELETE', middle.uri)).status, 204)
  const bystanders = [await childOf(admin), bot]
  const { body: listed } = await admin('GET', `/api_keys?descendants_of=${leaked.id}`)
  const doomed = [child, forBot, fromSession]
  assert.deepEqual(listed.keys.map(({ id }: Key) => id).sort(), doomed.map(({ id }) => id).sort())

  const gone = await admin('DELETE', `${leaked.uri}?revoke_descendants=true`)
  assert.equal(gone.status, 204)
  for (const { token } of [leaked, ...doomed]) assert.equal(await statusOf(token), 401)
  for (const { token } of bystanders) assert.equal(await statusOf(token), 200)
  for (const { id } of [leaked, ...doomed]) {
    const { body } = await admin('GET', `/audit_events?resource_id=${id}&operation=api_keys.delete`)
    const [event] = body.audit_events
    assert.equal(event.operation_id, gone.headers.get('operation-id'))
    assert.deepEqual([event.before.id, event.after], [id, null])
  }
})

test('row 11: deleting owners in the middle of a chain hides no key from the key above', async () => {
  const admin = await plane.newAccount()
  const leaked = await childOf(admin)
  const accomplice = await newUser(plane, leaked, 'admin')
  const second = await childOf(accomplice)
  const third = await childOf(second, { owner_id: admin.adminId })
  assert.equal((await leaked('DELETE', accomplice.ownerUri)).status, 204)
  assert.equal(await statusOf(third.token), 200)
  await admin('DELETE', `${leaked.uri}?revoke_descendants=true`)
  assert.equal(await statusOf(third.token), 401)
})

test('row 11: no descendant survives that is created at the very moment of the revocation', async () => {
  const admin = await plane.newAccount()
  let made = 0
  for (let round = 0; round < 12; round++) {
    const leaked = await childOf(admin)
    const child = await childOf(leaked)
    const tokens = [leaked.token, child.token]
    let over = false
    // Each creates keys with the key it made last, so that the tree grows while it is cut down.
    const thief = async (process: number) => {
      let mine = child.token
      while (!over) {
        const { status, body } = await plane.clientFor(mine)('POST', '/api_keys', {}, { process })
        if (status !== 201) {
          assert.ok(status === 401 || status === 409, `${status}`)
          return
        }
        tokens.push(body.token)
        if (tokens.length % 3 === 0) mine = body.token
      }
    }
    const thieves = [thief(0), thief(1), thief(0), thief(1)]
    while (tokens.length < 10 + round) await new Promise(setImmediate)
    const { status } = await admin('DELETE', `${leaked.uri}?revoke_descendants=true`, undefined, { process: round % 2 })
    assert.equal(status, 204)
    over = true
    await Promise.all(thieves)
    made += tokens.length
    for (const token of tokens) assert.equal(await statusOf(token), 401)
  }
  const accountId = toUuid(admin.accountId as `ac_${string}`)
  const left = await one<{ keys: number; links: number }>(
    plane.db,
    sql`select (select count(*)::int from api_keys where account_id = ${accountId}) as keys,
               (select count(*)::int from api_key_ancestors where account_id = ${accountId}) as links`,
  )
  assert.deepEqual(left, { keys: 1, links: 0 })
  console.log(`${made} keys in 12 trees, all refused after the revocation`)
})

test('row 11: a member revokes only their own keys; one descendant of another owner refuses the request', async () => {
  const admin = await plane.newAccount()
  const member = await newUser(plane, admin)
  const own = await childOf(member)
  const below = await childOf(own)
  const lineage = { ancestor: toUuid(own.id as 'ak_'), account: toUuid(admin.accountId as 'ac_') }
  const other = await childOf(admin)
  // As it is when the member was an admin once.
  await run(
    plane.db,
    sql`insert into api_key_ancestors values (${lineage.account}, ${lineage.ancestor}, ${toUuid(other.id as 'ak_')})`,
  )
  assertRefused(await member('DELETE', `${own.uri}?revoke_descendants=true`), 403, 'ERR_FORBIDDEN')
  for (const { token } of [own, below, other]) assert.equal(await statusOf(token), 200)
  assert.equal((await admin('DELETE', `${own.uri}?revoke_descendants=true`)).status, 204)
  for (const { token } of [own, below, other]) assert.equal(await statusOf(token), 401)
})

test('row 11: one request deletes at most 10,000 descendants, and a chain of keys is limited', async () => {
  const admin = await plane.newAccount()
  const leaked = await childOf(admin)
  const accountId = toUuid(admin.accountId as 'ac_')
  const insert = (ids: string[]) =>
    run(
      plane.db,
      sql`
      with made as (
        insert into api_keys (account_id, id, owner_id, owner_kind, token_hash)
        select ${accountId}, id, ${toUuid(admin.adminId as 'usr_')}, 'user', sha256(id::text::bytea)
        from unnest(${ids}::uuid[]) as id
        returning account_id, id
      )
      insert into api_key_ancestors select account_id, ${toUuid(leaked.id as 'ak_')}, id from made`,
    )
  await insert(Array.from({ length: 10_001 }, () => newUuid()))
  const url = `${leaked.uri}?revoke_descendants=true`
  assertRefused(await admin('DELETE', url), 409, 'ERR_TOO_MANY')
  assert.equal(await statusOf(leaked.token), 200)
  const [{ id }] = (await admin('GET', `/api_keys?descendants_of=${leaked.id}&limit=1`)).body.keys
  await admin('DELETE', `/api_keys/${id}`)
  const begun = Date.now()
  assert.equal((await admin('DELETE', url)).status, 204)
  console.log(`10,000 descendants deleted and audited in ${Date.now() - begun} ms`)
  assert.equal(await statusOf(leaked.token), 401)

  let last: Client = admin
  for (let depth = 0; depth < 100; depth++) last = await childOf(last)
  assertRefused(await last('POST', '/api_keys', {}), 409, 'ERR_TOO_MANY')
})

test('row 11: a replaced token calls the API, but manages neither keys nor their owners, and cannot sign in', async () => {
  const admin = await plane.newAccount()
  const leaked = await childOf(admin)
  const another = await childOf(admin)
  const bot = await newBot(plane, admin)
  const opened = await signIn(leaked)
  const current = await rotated(admin, leaked)
  assert.equal((await leaked('POST', '/ip_policies', {})).status, 201)
  assert.equal((await leaked('GET', '/api_keys')).status, 200)
  for (const call of [leaked, opened]) {
    for (const [method, path, body] of [
      ['POST', '/api_keys', {}],
      ['POST', `${leaked.uri}/rotate`, { overlap_seconds: 0 }],
      ['PATCH', leaked.uri, { expires_at: null }],
      ['DELETE', leaked.uri],
      ['POST', `${another.uri}/rotate`, {}],
      ['DELETE', another.uri],
      ['POST', '/users', { name: 'x', email: 'x@example.com', role: 'admin' }],
      ['PATCH', bot.ownerUri, { active: false }],
      ['DELETE', bot.ownerUri],
    ] as const)
      assertRefused(await call(method, path, body), 403, 'ERR_TOKEN_REPLACED')
  }
  assertRefused(await leaked('POST', '/dashboard_session', { token: leaked.token }), 403, 'ERR_TOKEN_REPLACED')
  assert.equal(await statusOf(current.token), 200, 'the rightful token still works')
  assert.equal((await current('POST', `${leaked.uri}/rotate`, {})).status, 200)
})

test('row 11: only the first of several concurrent rotations with one token succeeds', async () => {
  const admin = await plane.newAccount()
  for (let round = 0; round < 10; round++) {
    const key = await childOf(admin)
    const answers = await Promise.all([0, 1, 0, 1].map((process) => key('POST', `${key.uri}/rotate`, {}, { process })))
    const [won, ...more] = answers.filter(({ status }) => status === 200)
    assert.equal(more.length, 0)
    for (const answer of answers) if (answer.status !== 200) assertRefused(answer, 403, 'ERR_TOKEN_REPLACED')
    assert.equal((await admin('GET', key.uri)).body.rotated_at, won?.body.rotated_at)
  }
})

test("row 11: only admins extend or clear expires_at, and keys inherit the expiry of a member's key", async () => {
  const admin = await plane.newAccount()
  const member = await newUser(plane, admin)
  const end = inMs(60_000)
  const { body: leaked } = await admin('POST', '/api_keys', { owner_id: member.ownerId, expires_at: end })
  const thief = plane.clientFor(leaked.token)
  const owner = member
  for (const call of [thief, owner]) {
    for (const expires_at of [null, inMs(3_600_000), new Date(Date.parse(end) + 1).toISOString()])
      assertRefused(await call('PATCH', leaked.uri, { expires_at }), 403, 'ERR_FORBIDDEN')
    assert.equal((await call('PATCH', leaked.uri, { expires_at: end, description: 'x' })).status, 200)
  }
  assert.equal((await thief('POST', '/api_keys', {})).body.expires_at, end)
  assert.equal((await thief('POST', '/api_keys', { expires_at: null })).body.expires_at, end)
  assertRefused(await thief('POST', '/api_keys', { expires_at: inMs(3_600_000) }), 403, 'ERR_FORBIDDEN')
  const sooner = inMs(30_000)
  assert.equal((await thief('POST', '/api_keys', { expires_at: sooner })).body.expires_at, sooner)
  assert.equal((await thief('POST', `${leaked.uri}/rotate`, {})).body.expires_at, end)

  assert.equal((await owner('PATCH', leaked.uri, { expires_at: sooner })).status, 200, 'sooner is always allowed')
  for (const expires_at of [inMs(3_600_000), null])
    assert.equal((await admin('PATCH', leaked.uri, { expires_at })).status, 200)
  assert.equal((await owner('PATCH', leaked.uri, { expires_at: end })).status, 200, 'from never to some time')
})
