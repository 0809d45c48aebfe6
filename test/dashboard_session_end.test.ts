// A dashboard session that ends, for any reason, ends for the very next request, on every process.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { many, one, run } from '../src/db/pool.ts'
import { sql } from '../src/db/sql.ts'
import { transaction } from '../src/db/transaction.ts'
import { sessionHasEnded } from '../src/identity/caller.ts'
import { toUuid } from '../src/kernel/ids.ts'
import { deleteEndedSessions } from '../src/resources/dashboard_session/store.ts'
import type { Client } from './harness/client.ts'
import { startControlPlane } from './harness/control_plane.ts'
import { behindProxy, from, policyWith, restrict } from './harness/ip.ts'
import { pause } from './harness/poll.ts'
import { newUser } from './harness/principals.ts'
import { type Browser, signIn } from './harness/session.ts'

const plane = await startControlPlane({ after }, { processes: 2, env: behindProxy })
const inOtherProcess = { process: 1 }

test('signing out ends the session on the server, for the very next request on every process', async () => {
  const admin = await plane.newAccount()
  const [browser, other] = [await signIn(admin), await signIn(admin)]
  const out = await browser('DELETE', '/dashboard_session')
  assert.equal(out.status, 204)
  assert.match(out.headers.getSetCookie()[0] ?? '', /^__Host-gatehouse_session=; Max-Age=0; Path=\/; .*Secure$/)
  for (const process of [0, 1]) assert.equal((await browser('GET', '/caller', undefined, { process })).status, 401)
  assert.equal((await other('GET', '/caller')).status, 200)
})

type Ending = (admin: Client, person: Awaited<ReturnType<typeof newUser>>, browser: Browser) => Promise<unknown>
const endings: Record<string, Ending> = {
  'its key is deleted': (admin, { keyId }) => admin('DELETE', `/api_keys/${keyId}`),
  "its key's owner is deactivated": (admin, { ownerUri }) => admin('PATCH', ownerUri, { active: false }),
  "its key's owner is deleted": (admin, { ownerUri }) => admin('DELETE', ownerUri),
  'its key gets another token': (admin, { keyId }) =>
    admin('POST', `/api_keys/${keyId}/rotate`, { overlap_seconds: 0 }),
  "its key's time is over": (admin, { keyId }) =>
    admin('PATCH', `/api_keys/${keyId}`, { expires_at: new Date().toISOString() }),
  'twelve hours are over': (_admin, _person, { sessionId }) =>
    run(
      plane.db,
      sql`update dashboard_sessions set expires_at = now() where id = ${toUuid(sessionId as `ses_${string}`)}`,
    ),
  'it was not used for an hour': (_admin, _person, { sessionId }) =>
    run(
      plane.db,
      sql`update dashboard_sessions set last_used_at = now() - interval '1 hour' where id = ${toUuid(sessionId as `ses_${string}`)}`,
    ),
}
for (const [when, end] of Object.entries(endings)) {
  test(`a session ends when ${when}: the very next request through another process is refused`, async () => {
    const admin = await plane.newAccount()
    const person = await newUser(plane, admin)
    const browser = await signIn(person)
    const bystander = await signIn(admin)
    for (let i = 0; i < 2; i++) assert.equal((await browser('GET', '/caller', undefined, inOtherProcess)).status, 200)
    await end(admin, person, browser)
    assert.equal((await browser('GET', '/caller', undefined, inOtherProcess)).status, 401)
    assert.equal((await bystander('GET', '/caller', undefined, inOtherProcess)).status, 200)
  })
}

const statusOfSignIn = async (token: string) =>
  (await plane.clientFor(token)('POST', '/dashboard_session', { token })).status

test('a session lasts as long as the token that opened it: through the overlap of a rotation, and no longer', async () => {
  const admin = await plane.newAccount()
  const { body: key } = await admin('POST', '/api_keys', {})
  const old = plane.clientFor(key.token)
  const before = await signIn(old)
  await admin('POST', `/api_keys/${key.id}/rotate`, { overlap_seconds: 3600 })
  assert.equal(await statusOfSignIn(key.token), 403, 'a replaced token opens no session')
  assert.equal((await before('GET', '/caller', undefined, inOtherProcess)).status, 200)
  // The second rotation ends the oldest of three tokens.
  const { body: third } = await admin('POST', `/api_keys/${key.id}/rotate`, { overlap_seconds: 3600 })
  assert.equal((await before('GET', '/caller', undefined, inOtherProcess)).status, 401)
  assert.equal(await statusOfSignIn(key.token), 401)
  assert.equal(await statusOfSignIn(third.token), 201)
})

test('200 keys deleted through one process: the very next request of their sessions through another is refused', async () => {
  const admin = await plane.newAccount()
  const rounds = Array.from({ length: 200 }).keys()
  const worker = async () => {
    for (const _ of rounds) {
      const { body: key } = await admin('POST', '/api_keys', {})
      const browser = await signIn(plane.clientFor(key.token))
      const statuses = [
        (await browser('GET', '/caller', undefined, inOtherProcess)).status,
        (await admin('DELETE', key.uri)).status,
        (await browser('GET', '/caller', undefined, inOtherProcess)).status,
      ]
      assert.deepEqual(statuses, [200, 204, 401])
    }
  }
  await Promise.all([worker(), worker(), worker(), worker()])
})

test('signing in while the key is deleted or rotated leaves no session behind', async () => {
  const admin = await plane.newAccount()
  let began = 0
  for (let round = 0; round < 60; round++) {
    const { body: key } = await admin('POST', '/api_keys', {})
    const end =
      round % 2
        ? () => admin('DELETE', key.uri, undefined, inOtherProcess)
        : () => admin('POST', `${key.uri}/rotate`, { overlap_seconds: 0 }, inOtherProcess)
    const [browser] = await Promise.allSettled([signIn(plane.clientFor(key.token)), pause(round % 5).then(end)])
    if (browser.status === 'rejected') continue
    began++
    assert.equal((await browser.value('GET', '/caller')).status, 401)
  }
  assert.ok(began > 5, `${began} of 60 began`)
})

test('use keeps a session alive, but a refused address does not', async () => {
  const admin = await plane.newAccount()
  const browser = await signIn(admin, from('192.0.2.1'))
  await restrict(admin, {
    type: 'dashboard',
    enforced: true,
    ip_policy_ids: [await policyWith(admin, 'allow 192.0.2.1')],
  })
  const id = toUuid(browser.sessionId as `ses_${string}`)
  const idle = () =>
    one<{ minutes: number }>(
      plane.db,
      sql`select (extract(epoch from now() - last_used_at) / 60)::int as minutes from dashboard_sessions where id = ${id}`,
    )
  await run(plane.db, sql`update dashboard_sessions set last_used_at = now() - interval '50 minutes' where id = ${id}`)
  assert.equal((await browser('GET', '/caller', undefined, from('192.0.2.2'))).status, 403)
  assert.equal((await idle()).minutes, 50)
  assert.equal((await browser('GET', '/caller')).status, 200)
  assert.equal((await idle()).minutes, 0)
})

test('ended sessions are found by index, and deleting them leaves the live ones', async () => {
  const admin = await plane.newAccount()
  const [live, over, idle] = [await signIn(admin), await signIn(admin), await signIn(admin)]
  const idOf = ({ sessionId }: Browser) => toUuid(sessionId as `ses_${string}`)
  await run(plane.db, sql`update dashboard_sessions set expires_at = now() where id = ${idOf(over)}`)
  await run(
    plane.db,
    sql`update dashboard_sessions set last_used_at = now() - interval '1 hour' where id = ${idOf(idle)}`,
  )
  const plan = await transaction(plane.db, async (tx) => {
    await tx.query({ text: 'set local enable_seqscan = off' })
    return many(tx, sql`explain delete from dashboard_sessions s where ${sessionHasEnded}`)
  })
  assert.match(JSON.stringify(plan), /dashboard_sessions_age/)
  assert.match(JSON.stringify(plan), /dashboard_sessions_idle/)
  await deleteEndedSessions(plane.db)
  const left = await many<{ id: string }>(
    plane.db,
    sql`select id from dashboard_sessions where id = any(${[live, over, idle].map(idOf)})`,
  )
  assert.deepEqual(left, [{ id: idOf(live) }])
})

test('a key has at most 50 sessions: a new one replaces the oldest', async () => {
  const admin = await plane.newAccount()
  const first = await signIn(admin)
  const second = await signIn(admin)
  for (let i = 0; i < 49; i++) await signIn(admin)
  assert.equal((await first('GET', '/caller')).status, 401)
  assert.equal((await second('GET', '/caller')).status, 200)
})
