// Row 4 of the security review: a dashboard session is no way around the account's `api` restrictions.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { toUuid } from '../../src/kernel/ids.ts'
import type { Client } from '../harness/client.ts'
import { startControlPlane } from '../harness/control_plane.ts'
import { assertRefused } from '../harness/fixtures.ts'
import { behindProxy, from, policyWith, restrict } from '../harness/ip.ts'
import { poll } from '../harness/poll.ts'
import { newBot, newUser } from '../harness/principals.ts'
import { signIn } from '../harness/session.ts'

const plane = await startControlPlane({ after }, { processes: 2, env: behindProxy })
const [office, elsewhere] = [from('192.0.2.1'), from('198.51.100.7')]

const enforce = async (admin: Client, type: 'api' | 'dashboard', ...lines: string[]) =>
  restrict(admin, { type, enforced: true, ip_policy_ids: [await policyWith(admin, ...lines)] })
const signInFrom = (client: Client, where: typeof office) =>
  client(
    'POST',
    '/dashboard_session',
    { token: client.token },
    { headers: { authorization: undefined, ...where.headers } },
  )

test('row 4: an address that the `api` restriction refuses cannot sign in with the same token', async () => {
  const admin = await plane.newAccount()
  const { id } = await enforce(admin, 'api', 'allow 127.0.0.0/8', 'allow 192.0.2.0/24')
  assertRefused(await admin('GET', '/caller', undefined, elsewhere), 403, 'ERR_IP_REFUSED')
  const refused = await signInFrom(admin, elsewhere)
  assertRefused(refused, 403, 'ERR_IP_REFUSED')
  assert.match(refused.body.msg, /not allowed to use the dashboard, because it is not allowed to call the API/)
  assert.deepEqual(refused.headers.getSetCookie(), [])
  assert.equal((await signInFrom(admin, office)).status, 201)
  const { body } = await poll(
    () => admin('GET', `/ip_refusals/${refused.body.details.operation_id}`),
    ({ status }) => status === 200,
  )
  assert.deepEqual([body.type, body.operation, body.ip_restriction.id], ['api', 'dashboard_session.sign_in', id])
})

test('row 4: the cookie is refused where the token is, from the next request on, and cannot undo the restriction', async () => {
  const admin = await plane.newAccount()
  const browser = await signIn(admin, elsewhere)
  const restriction = await enforce(admin, 'api', 'allow 127.0.0.0/8')
  for (const [method, path, body] of [
    ['GET', '/caller'],
    ['GET', '/dashboard_session'],
    ['POST', '/api_keys', {}],
    ['DELETE', `${restriction.uri}?allow_self_lockout=true`],
  ] as const)
    for (const process of [0, 1]) assertRefused(await browser(method, path, body, { process }), 403, 'ERR_IP_REFUSED')
  assert.equal((await admin('GET', restriction.uri)).body.enforced, true)
})

test('row 4: a session must pass both gates: either one alone refuses it', async () => {
  for (const type of ['api', 'dashboard'] as const) {
    const admin = await plane.newAccount()
    const browser = await signIn(admin, office)
    await enforce(admin, 'dashboard', 'allow 127.0.0.0/8', `allow ${type === 'api' ? '0.0.0.0/0' : '10.0.0.0/8'}`)
    await enforce(admin, 'api', 'allow 127.0.0.0/8', `allow ${type === 'api' ? '10.0.0.0/8' : '0.0.0.0/0'}`)
    assertRefused(await browser('GET', '/caller'), 403, 'ERR_IP_REFUSED')
    assertRefused(await signInFrom(admin, office), 403, 'ERR_IP_REFUSED')
    assert.equal((await signInFrom(admin, from('127.0.0.1'))).status, 201)
  }
})

test('row 4: an unenforced `api` restriction warns a session as it warns a token', async () => {
  const admin = await plane.newAccount()
  const browser = await signIn(admin, office)
  const { id } = await restrict(admin, { type: 'api', ip_policy_ids: [await policyWith(admin)] })
  assert.equal((await browser('GET', '/caller')).headers.get('service-warning'), `ip_restriction=${id}`)
})

test('row 4: a change in the dashboard that would refuse this very session on either gate is rolled back', async () => {
  const admin = await plane.newAccount()
  const browser = await signIn(admin, office)
  const others = await policyWith(admin, 'allow 10.0.0.0/8')
  for (const type of ['api', 'dashboard']) {
    const refused = await browser('POST', '/ip_restrictions', { type, enforced: true, ip_policy_ids: [others] })
    assertRefused(refused, 409, 'ERR_SELF_LOCKOUT')
    assert.equal((await browser('GET', '/caller')).status, 200)
  }
})

test('row 4: the impact of an `api` policy counts the addresses from which the dashboard is used', async () => {
  const admin = await plane.newAccount()
  const policy = await policyWith(admin, 'allow 0.0.0.0/0')
  await restrict(admin, { type: 'api', enforced: true, ip_policy_ids: [policy] })
  const browser = await signIn(admin, office)
  const impact = () =>
    browser('POST', `/ip_policies/${policy}/impact`, { rules: [{ action: 'allow', cidr: '127.0.0.0/8' }] })
  const { body } = await poll(impact, ({ body: { traffic } }) => traffic[0]?.newly_refused.total > 0)
  assert.deepEqual(
    [body.traffic[0].type, body.traffic[0].newly_refused.addresses.map(({ ip }: { ip: string }) => ip)],
    ['api', ['192.0.2.1']],
  )
})

test('row 4: bots cannot sign in, and sessions that bots opened before the upgrade have ended', async () => {
  const admin = await plane.newAccount()
  const bot = await newBot(plane, admin)
  const refused = await signInFrom(bot, office)
  assertRefused(refused, 403, 'ERR_FORBIDDEN')
  assert.match(refused.body.msg, /^Bots cannot sign in/)
  assert.deepEqual(refused.headers.getSetCookie(), [])
  // As an older version left it: the row of a session whose key belongs to a bot.
  const user = await newUser(plane, admin)
  const browser = await signIn(user)
  assert.equal((await browser('GET', '/caller')).status, 200)
  await run(
    plane.db,
    sql`update api_keys set owner_id = ${toUuid(bot.ownerId as `bot_${string}`)}, owner_kind = 'bot'
        where id = ${toUuid(user.keyId as `ak_${string}`)}`,
  )
  assert.equal((await browser('GET', '/caller')).status, 401)
})
