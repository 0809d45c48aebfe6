// What a key may do and from where. test/isolation.test.ts tries every operation without its scope, and with it alone.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { one, run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { transaction } from '../../src/db/transaction.ts'
import { type Id, toUuid } from '../../src/kernel/ids.ts'
import type { Answer, Client } from '../harness/client.ts'
import { assertRefused, make } from '../harness/fixtures.ts'
import { from } from '../harness/ip.ts'
import { poll } from '../harness/poll.ts'
import { newUser } from '../harness/principals.ts'
import { signIn } from '../harness/session.ts'
import { sharedControlPlane } from '../harness/shared_control_plane.ts'
import { tellingPart } from '../isolation/matrix.ts'
import { tryToMint } from './mint.ts'

const plane = await sharedControlPlane({ after })
const withKey = async (admin: Client, fields: object) => {
  const key = await make(admin, '/api_keys', fields)
  return Object.assign(plane.clientFor(key.token), { id: key.id as string, uri: key.uri as string })
}
const assertMissing = (answer: Answer, missing: string, field?: string) => {
  assertRefused(answer, 403, 'ERR_SCOPE', field)
  assert.equal(answer.body.details.missing, missing)
}

test('a key without limits shows scopes ["*"] and no ranges; limits are shown, audited and changeable', async () => {
  const admin = await plane.newAccount()
  const plain = await make(admin, '/api_keys')
  assert.deepEqual([plain.scopes, plain.allowed_cidrs], [['*'], []])
  const limits = {
    scopes: ['*.get', 'api_keys.*'],
    allowed_cidrs: ['10.0.0.0/8', '2001:DB8::1', '::ffff:192.0.2.0/120'],
  }
  const key = await make(admin, '/api_keys', limits)
  assert.deepEqual(key.scopes, limits.scopes)
  assert.deepEqual(key.allowed_cidrs, ['10.0.0.0/8', '2001:db8::1/128', '192.0.2.0/24'])
  const { body: patched } = await admin('PATCH', key.uri, { scopes: ['*.list'], allowed_cidrs: [] })
  assert.deepEqual([patched.scopes, patched.allowed_cidrs], [['*.list'], []])
  const { body: untouched } = await admin('PATCH', key.uri, { description: 'reads lists' })
  assert.deepEqual([untouched.scopes, untouched.allowed_cidrs], [['*.list'], []])
  const { body: events } = await admin('GET', `/audit_events?resource_id=${key.id}&operation=api_keys.update`)
  const [, change] = events.audit_events
  assert.deepEqual([change.before.scopes, change.after.scopes], [limits.scopes, ['*.list']])
})

test('a scope that matches no operation is refused with a suggestion, and so is text that is not a scope', async () => {
  const admin = await plane.newAccount()
  for (const [scope, suggestion] of [
    ['api_key.*', 'api_keys.*'],
    ['api_keys', 'api_keys.*'],
    ['api_key.create', 'api_keys.create'],
    ['*.read', '*.create|*.get|*.replace'],
    ['http_edges.list', 'https_edges.list'],
  ] as const) {
    const refused = await admin('POST', '/api_keys', { scopes: ['*.get', scope] })
    assertRefused(refused, 400, 'ERR_INVALID_FIELD', 'scopes[1]')
    assert.match(refused.body.msg, new RegExp(`did you mean (${suggestion.replaceAll(/[.*]/g, '\\$&')})`))
  }
  const far = await admin('PATCH', (await make(admin, '/api_keys')).uri, {
    scopes: ['everything_there_is_in_the_world'],
  })
  assert.equal(far.body.msg, 'scopes[0] matches no operation.')
  for (const [field, scopes] of [
    ['scopes', []],
    ['scopes', '*'],
    ['scopes', null],
    ['scopes[1]', ['*', '*']],
    ['scopes[0]', ['*.*']],
    ['scopes[0]', ['api_keys*']],
    ['scopes[0]', ['']],
    ['scopes[0]', ['API_KEYS.LIST']],
    ['scopes[0]', [7]],
    ['scopes', Array.from({ length: 101 }, (_, index) => `users.${'x'.repeat(index + 1)}`)],
  ] as const)
    assertRefused(await admin('POST', '/api_keys', { scopes }), 400, 'ERR_INVALID_FIELD', field)
  for (const [field, allowed_cidrs] of [
    ['allowed_cidrs[0]', ['10.1.2.3/8']],
    ['allowed_cidrs[1]', ['10.0.0.0/8', 'office']],
    ['allowed_cidrs', null],
    ['allowed_cidrs', Array.from({ length: 101 }, (_, index) => `10.0.0.${index}`)],
  ] as const)
    assertRefused(await admin('POST', '/api_keys', { allowed_cidrs }), 400, 'ERR_INVALID_FIELD', field)
})

test('a scope adds nothing to the role of the owner', async () => {
  const admin = await plane.newAccount()
  const member = await newUser(plane, admin)
  const key = await withKey(admin, { owner_id: member.ownerId, scopes: ['*'] })
  assertRefused(await key('POST', '/users', { name: 'Mo', email: 'mo@example.com' }), 403, 'ERR_FORBIDDEN')
})

test('changed scopes hold from the next request on, on every process', async () => {
  const admin = await plane.newAccount()
  const key = await withKey(admin, { scopes: ['caller.get'] })
  const statuses = () =>
    Promise.all([0, 1].map(async (process) => (await key('GET', '/caller', undefined, { process })).status))
  for (const [scopes, expected] of [
    [['users.*'], 403],
    [['caller.*'], 200],
    [['*.list'], 403],
  ] as const) {
    assert.equal((await admin('PATCH', key.uri, { scopes })).status, 200)
    assert.deepEqual(await statuses(), [expected, expected])
  }
})

test('a new key has the scopes and ranges of the key that creates it, unless it asks for less', async () => {
  const admin = await plane.newAccount()
  const limits = { scopes: ['api_keys.*', '*.list'], allowed_cidrs: ['127.0.0.0/8'] }
  const deploy = await withKey(admin, limits)
  const same = await make(deploy, '/api_keys')
  assert.deepEqual([same.scopes, same.allowed_cidrs], [limits.scopes, limits.allowed_cidrs])
  const less = await make(deploy, '/api_keys', { scopes: ['users.list'], allowed_cidrs: ['127.0.0.1'] })
  assert.deepEqual([less.scopes, less.allowed_cidrs], [['users.list'], ['127.0.0.1/32']])
})

test('a key gives no other key more than it has: by creating, changing, extending or rotating it', async () => {
  const admin = await plane.newAccount()
  const limits = { scopes: ['api_keys.*', '*.list'], allowed_cidrs: ['127.0.0.0/8'] }
  const thief = await withKey(admin, limits)
  const wide = await make(admin, '/api_keys', { expires_at: '2040-01-01T00:00:00Z' })
  const elsewhere = await make(admin, '/api_keys', { scopes: ['users.list'] })
  for (const [missing, field, body] of [
    ['*', 'scopes[0]', { scopes: ['*'] }],
    ['users.*', 'scopes[1]', { scopes: ['users.list', 'users.*'] }],
    ['any address', 'allowed_cidrs', { allowed_cidrs: [] }],
    ['0.0.0.0/0', 'allowed_cidrs[0]', { allowed_cidrs: ['0.0.0.0/0'] }],
  ] as const) {
    assertMissing(await thief('POST', '/api_keys', body), missing, field)
    assertMissing(await thief('PATCH', thief.uri, body), missing, field)
  }
  assertMissing(await thief('PATCH', elsewhere.uri, { scopes: ['*.list'] }), 'any address', 'allowed_cidrs')
  assertMissing(await thief('PATCH', wide.uri, { expires_at: null }), '*', 'scopes[0]')
  assertMissing(await thief('POST', `${wide.uri}/rotate`, {}), '*', 'scopes[0]')
  assertMissing(await thief('POST', `${elsewhere.uri}/rotate`, {}), 'any address', 'allowed_cidrs')
  assert.equal((await thief('PATCH', wide.uri, { description: 'harmless' })).status, 200)
  assert.equal((await thief('PATCH', wide.uri, { expires_at: '2001-01-01T00:00:00Z' })).status, 200)
  assert.equal((await thief('POST', `${thief.uri}/rotate`, { overlap_seconds: 0 })).status, 200)
})

test('random attempts to get more than a key has are all refused', async () => {
  await tryToMint(plane, 60)
})

test('a key that is narrowed while it creates another gives it no more than it has then', async () => {
  const admin = await plane.newAccount()
  const leaked = await withKey(admin, { scopes: ['api_keys.*', '*.list'] })
  const waiting = () =>
    one<{ count: number }>(
      plane.db,
      sql`select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
    )
  // Both were let in with the wider scopes, and wait for the row of their key.
  const creating = await transaction(plane.db, async (tx) => {
    await run(tx, sql`update api_keys set scopes = '{api_keys.*}' where id = ${toUuid(leaked.id as Id<'ak'>)}`)
    const attempts = [leaked('POST', '/api_keys', {}), leaked('POST', '/api_keys', { scopes: ['*.list'] })]
    await poll(waiting, ({ count }) => Number(count) === 2)
    return { attempts }
  })
  const [inheriting, asking] = await Promise.all(creating.attempts)
  assert.deepEqual(inheriting?.body.scopes, ['api_keys.*'])
  assert.ok(asking)
  assertMissing(asking, '*.list', 'scopes[0]')
})

test('only a key with all scopes signs in, and narrowing the key ends its sessions', async () => {
  const admin = await plane.newAccount()
  const limited = await withKey(admin, { scopes: ['dashboard_session.*', '*.get', '*.list'] })
  const refused = await limited('POST', '/dashboard_session', { token: limited.token })
  assertMissing(refused, '*')
  assert.deepEqual(refused.headers.getSetCookie(), [])
  const full = await withKey(admin, {})
  const browser = await signIn(full)
  assert.equal((await browser('GET', '/caller')).status, 200)
  const { body: key } = await browser('POST', '/api_keys', {})
  assert.deepEqual(key.scopes, ['*'])
  assert.equal((await admin('PATCH', full.uri, { scopes: ['*.get'] })).status, 200)
  for (const process of [0, 1]) assert.equal((await browser('GET', '/caller', undefined, { process })).status, 401)
})

test('outside its ranges a key gets the same 401 as a wrong token, and the audit says why', async () => {
  const admin = await plane.newAccount()
  const key = await withKey(admin, { allowed_cidrs: ['192.0.2.0/24', '2001:db8::/32'] })
  const browser = await signIn(key, from('192.0.2.1'))
  const wrong = plane.clientFor((await make(admin, '/api_keys')).token)
  const unknown = await wrong('DELETE', (await wrong('GET', '/caller')).body.api_key.uri)
  assert.equal(unknown.status, 204)
  for (const ip of ['192.0.2.255', '2001:db8:ffff::1'])
    assert.equal((await key('GET', '/caller', undefined, from(ip))).status, 200)
  for (const ip of ['192.0.3.0', '2001:db9::1', 'unknown']) {
    const outside = await key('GET', '/caller', undefined, from(ip))
    assert.equal(outside.status, 401)
    assert.deepEqual(tellingPart(outside), tellingPart(await wrong('GET', '/caller', undefined, from(ip))))
    const session = await browser('GET', '/caller', undefined, from(ip))
    assert.deepEqual(tellingPart(session), tellingPart(outside))
    const signedIn = await key('POST', '/dashboard_session', { token: key.token }, from(ip))
    const signedInWrong = await wrong('POST', '/dashboard_session', { token: wrong.token }, from(ip))
    assert.deepEqual(tellingPart(signedIn), tellingPart(signedInWrong))
    assert.equal(signedIn.status, 401)
  }
  const refusals = () => admin('GET', `/audit_events?resource_id=${key.id}&operation=server.refuse_api_key`)
  const { body } = await poll(refusals, ({ body: { audit_events } }) => audit_events.length === 9)
  const [newest] = body.audit_events.filter(({ source_ip }: { source_ip: string }) => source_ip === '192.0.3.0')
  assert.deepEqual(newest.after, {
    reason: 'source_ip is outside allowed_cidrs',
    operation: 'dashboard_session.sign_in',
  })
  assert.equal(newest.api_key_id, key.id)
  const { body: shown } = await admin('GET', key.uri)
  assert.notEqual(shown.last_used_ip, '192.0.3.0')
})

test('a caller that is refused again and again does not fill the audit', async () => {
  const admin = await plane.newAccount()
  const key = await withKey(admin, { allowed_cidrs: ['192.0.2.0/24'] })
  const answers = await Promise.all(Array.from({ length: 60 }, () => key('GET', '/caller')))
  assert.ok(answers.every(({ status }) => status === 401))
  const refusals = async () =>
    (await admin('GET', `/audit_events?resource_id=${key.id}&operation=server.refuse_api_key`)).body.audit_events.length
  const count = await poll(refusals, (length) => length >= 10)
  assert.ok(count <= 12, `${count} events`)
})
