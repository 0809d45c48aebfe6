// How sessions of a provider end, how the account's rules hold for them, and how the command line signs in.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { hash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { toUuid } from '../../src/kernel/ids.ts'
import type { Answer, Client } from '../harness/client.ts'
import { gatehouse } from '../harness/command.ts'
import { behindProxy, policyWith, restrict } from '../harness/ip.ts'
import { poll } from '../harness/poll.ts'
import { signIn as signInWithToken } from '../harness/session.ts'
import { testRun } from '../harness/test_run.ts'
import type { Person } from './provider.ts'
import { startSignIn } from './set_up.ts'
import { newWalker, type Walker } from './walk.ts'

const plane = await startSignIn({ after }, { ...behindProxy, GATEHOUSE_TOKEN_SIGN_IN: 'off' })
const { origin, acme, other } = plane
const root = plane.clientFor((await plane.named('acme')).token)
await plane.named('other')

let people = 0
const newPerson = (fields: Partial<Person> = {}): Person => {
  const sub = `person-${++people}`
  return { sub, name: sub, email: `${sub}@acme.example`, email_verified: true, groups: ['staff'], ...fields }
}
async function signIn(person = newPerson(), walker = newWalker()): Promise<Walker & { error: string | null }> {
  acme.person = person
  const end = await walker.walk(`${origin}/sign_in/oidc/acme`, ({ pathname }) => pathname.startsWith('/dashboard/'))
  return { ...walker, error: end.searchParams.get('sign_in_error') }
}

/** What a page of the dashboard does. */
async function call(
  { step }: Walker,
  method: string,
  path: string,
  body?: unknown,
  headers: Record<string, string> = {},
) {
  const response = await step(origin + path, {
    method,
    headers: {
      'service-version': '2',
      'sec-fetch-site': 'same-origin',
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })
  const text = await response.text()
  return { status: response.status, body: (text ? JSON.parse(text) : undefined) as Answer['body'] }
}
const statusOf = async (walker: Walker) => (await call(walker, 'GET', '/caller')).status

const logoutEvent = { 'http://schemas.openid.net/event/backchannel-logout': {} }
const now = () => Math.floor(Date.now() / 1_000)
async function tellLogout(token: string, provider = 'acme') {
  const response = await fetch(`${origin}/sign_in/oidc/${provider}/backchannel_logout`, {
    method: 'POST',
    headers: { 'x-forwarded-for': '203.0.113.9' },
    body: new URLSearchParams({ logout_token: token }),
  })
  return response.status
}
let tokens = 0
const logoutToken = (claims: Record<string, unknown>, from = acme) =>
  from.sign({
    iss: from.issuer,
    aud: 'gatehouse',
    iat: now(),
    exp: now() + 60,
    jti: `jti-${++tokens}`,
    events: logoutEvent,
    ...claims,
  })

test('with token sign-in off, only providers sign people in, and the page offers nothing else', async () => {
  await assert.rejects(() => signInWithToken(root))
  const refused = await root('POST', '/dashboard_session', { token: root.token })
  assert.equal(refused.status, 403)
  assert.equal((await root('GET', '/caller')).status, 200, 'tokens call the API as before')
  const options = await (await fetch(`${origin}/sign_in/options`)).json()
  assert.deepEqual(options, {
    token: false,
    providers: [
      { name: 'acme', title: 'Acme' },
      { name: 'other', title: 'other' },
      { name: 'down', title: 'Down' },
    ],
  })
})

test('signing out ends the session here and names the address that ends it at the provider', async () => {
  const walker = await signIn()
  const other = await call(walker, 'POST', '/sign_in/sign_out', undefined, { 'sec-fetch-site': 'cross-site' })
  assert.equal(other.status, 403)
  assert.equal(await statusOf(walker), 200)
  const secret = walker.cookies.get(new URL(origin).host)?.get('gatehouse_session') ?? ''
  const { status, body } = await call(walker, 'POST', '/sign_in/sign_out')
  assert.equal(status, 200)
  const url = new URL(body.url)
  assert.equal(url.origin, acme.issuer)
  assert.equal(url.searchParams.get('post_logout_redirect_uri'), `${origin}/dashboard/`)
  assert.ok(url.searchParams.get('id_token_hint'))
  const stolen = await fetch(`${origin}/caller`, {
    headers: { 'service-version': '2', cookie: `gatehouse_session=${secret}` },
  })
  assert.equal(stolen.status, 401)
  assert.equal((await walker.step(url.href)).status, 200, 'the provider takes it')
})

test('when the provider ends a session, ours ends with it, and no other', async () => {
  const person = newPerson()
  const [one, two, stranger] = [await signIn(person), await signIn(person), await signIn()]
  const { rows } = await plane.db.query({
    text: `select s.provider_sid as sid, s.created_at from dashboard_sessions s join identities i on i.id = s.identity_id
      where i.subject = $1 order by s.id`,
    values: [person.sub],
  })
  assert.equal(rows.length, 2)
  assert.ok(rows[0].sid && rows[0].sid !== rows[1].sid, 'the provider names its sessions')
  assert.equal(await tellLogout(await logoutToken({ sid: rows[0].sid })), 200)
  assert.deepEqual([await statusOf(one), await statusOf(two), await statusOf(stranger)], [401, 200, 200])
  assert.equal(await tellLogout(await logoutToken({ sub: person.sub })), 200)
  assert.deepEqual([await statusOf(two), await statusOf(stranger)], [401, 200])
  const ended = (await root('GET', '/audit_events?operation=sign_in.ended_by_provider')).body.audit_events
  assert.equal(ended.length, 2)
})

test('a logout token that is forged, old, of another provider or no logout token ends nothing', async () => {
  const person = newPerson()
  const walker = await signIn(person)
  for (const [what, token, provider] of [
    ['another provider, at its own address', await logoutToken({ sub: person.sub }, other), 'acme'],
    [
      'another provider in the name of this one',
      await logoutToken({ sub: person.sub, iss: acme.issuer }, other),
      'acme',
    ],
    ['another audience', await logoutToken({ sub: person.sub, aud: 'another' }), 'acme'],
    ['expired', await logoutToken({ sub: person.sub, exp: now() - 60 }), 'acme'],
    ['old', await logoutToken({ sub: person.sub, iat: now() - 3_600, exp: now() + 60 }), 'acme'],
    ['an ID token', await logoutToken({ sub: person.sub, events: undefined }), 'acme'],
    ['with a nonce', await logoutToken({ sub: person.sub, nonce: 'x' }), 'acme'],
    ['without a subject', await logoutToken({}), 'acme'],
    ['nonsense', 'x.y.z', 'acme'],
  ] as const) {
    assert.equal(await tellLogout(token, provider), 400, what)
    assert.equal(await statusOf(walker), 200, what)
  }
  // Genuine, but of the other provider's account, whose people these are not.
  assert.equal(await tellLogout(await logoutToken({ sub: person.sub }, other), 'other'), 200)
  assert.equal(await statusOf(walker), 200)
})

const newVerifier = () => {
  const verifier = randomBytes(32).toString('base64url')
  return { verifier, challenge: hash('sha256', verifier, 'base64url') }
}
async function post(path: string, body: object, address = '198.51.100.7') {
  const response = await fetch(origin + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-forwarded-for': address },
    body: JSON.stringify(body),
  })
  return { status: response.status, body: (await response.json()) as Answer['body'] }
}
const begin = (challenge: string) => post('/sign_in/command', { challenge, client: 'gatehouse 1.2.3', host: 'laptop' })

test('a command gets a key that expires when a person approves it, once, and only with its verifier', async () => {
  const walker = await signIn()
  const { verifier, challenge } = newVerifier()
  const { body: started } = await begin(challenge)
  assert.match(started.code, /^[A-Z]{4}-[A-Z]{4}$/)
  assert.equal(started.url, `${origin}/dashboard/cli-login?code=${started.code}`)
  const collect = (secret = verifier) => post('/sign_in/command/token', { id: started.id, verifier: secret })
  assert.equal((await collect()).body.status, 'pending')
  const asked = await call(walker, 'GET', `/command_sign_in?code=${started.code}`)
  assert.deepEqual(
    [asked.body.client, asked.body.host, asked.body.source_ip, asked.body.same_address],
    ['gatehouse 1.2.3', 'laptop', '198.51.100.7', false],
  )
  assert.equal((await root('POST', '/command_sign_in', { code: started.code, approve: true })).status, 404, 'a token')
  const approved = await call(walker, 'POST', '/command_sign_in', { code: started.code, approve: true })
  assert.deepEqual(approved.body, { approved: true })
  assert.equal((await call(walker, 'POST', '/command_sign_in', { code: started.code, approve: true })).status, 404)
  assert.equal((await collect(newVerifier().verifier)).body.status, 'expired', 'as if it did not exist')
  const { body: got } = await collect()
  assert.equal(got.status, 'approved')
  assert.ok(Math.abs(Date.parse(got.expires_at) - Date.now() - 12 * 3_600_000) < 120_000)
  assert.equal((await collect()).body.status, 'expired', 'a second time')
  const key = plane.clientFor(got.token)
  const { body: caller } = await key('GET', '/caller')
  assert.equal(caller.owner_id, (await call(walker, 'GET', '/caller')).body.owner_id)
  const { body: listed } = await key('GET', `/api_keys/${got.api_key_id}`)
  assert.equal(listed.description, 'gatehouse login on laptop')
  assert.equal(listed.created_by_key_id, (await call(walker, 'GET', '/caller')).body.api_key.id)
  assert.equal((await root('DELETE', `/api_keys/${got.api_key_id}`)).status, 204)
  assert.equal((await key('GET', '/caller')).status, 401)
})

test('a denied command, a wrong code and another site get nothing', async () => {
  const walker = await signIn()
  const { verifier, challenge } = newVerifier()
  const { body: started } = await begin(challenge)
  assert.equal((await call(walker, 'GET', '/command_sign_in?code=BBBB-BBBB')).status, 404)
  const forged = await call(
    walker,
    'POST',
    '/command_sign_in',
    { code: started.code, approve: true },
    { 'sec-fetch-site': 'cross-site' },
  )
  assert.equal(forged.status, 403)
  assert.deepEqual((await call(walker, 'POST', '/command_sign_in', { code: started.code, approve: false })).body, {
    approved: false,
  })
  assert.equal((await post('/sign_in/command/token', { id: started.id, verifier })).body.status, 'denied')
  const { body: audited } = await root('GET', '/audit_events?operation=sign_in.failed')
  const { method, reason, host } = audited.audit_events[0].after
  assert.deepEqual([method, reason, host], ['command', 'denied', 'laptop'])
  assert.ok(!JSON.stringify(audited).includes(started.code))
  for (const wrong of [
    {},
    { challenge: 'short', client: 'x', host: 'y' },
    { challenge, client: 'x', host: 'a\u202eb' },
  ])
    assert.equal((await post('/sign_in/command', wrong)).status, 400)
})

test('gatehouse login saves a key that works, and gatehouse logout ends it', async () => {
  const walker = await signIn()
  const env = {
    ...process.env,
    XDG_CONFIG_HOME: join(testRun.folder, `login-${process.pid}`),
    GATEHOUSE_URL: '',
    GATEHOUSE_API_KEY: '',
  }
  const main = new URL('../../src/main.ts', import.meta.url).pathname
  const child = spawn(process.execPath, [main, 'login', '--url', origin, '--no-browser'], {
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const exited = once(child, 'exit')
  let said = ''
  child.stderr.on('data', (chunk) => {
    said += chunk
  })
  await poll(() => /this code: [A-Z]{4}-[A-Z]{4}/.test(said))
  const code = /code: (\S+)/.exec(said)?.[1] ?? ''
  assert.ok(said.includes(`${origin}/dashboard/cli-login?code=${code}`))
  const { body: asked } = await call(walker, 'GET', `/command_sign_in?code=${code}`)
  assert.match(asked.client, /^gatehouse \d/)
  await call(walker, 'POST', '/command_sign_in', { code, approve: true })
  assert.deepEqual(await exited, [0, null], said)
  const file = join(env.XDG_CONFIG_HOME, 'gatehouse', 'profiles.json')
  assert.equal(statSync(file).mode & 0o777, 0o600)
  const { owner_id } = (await call(walker, 'GET', '/caller')).body
  const caller = await gatehouse(['caller', 'get', '--output', 'json'], env)
  assert.equal(JSON.parse(caller.stdout).owner_id, owner_id, caller.stderr)
  assert.match((await gatehouse(['profiles', 'list'], env)).stdout, /until 20/)
  const { api_key } = JSON.parse(readFileSync(file, 'utf8')).profiles.default
  assert.equal((await gatehouse(['logout'], env)).code, 0)
  assert.equal((await plane.clientFor(api_key)('GET', '/caller')).status, 401)
  const after = await gatehouse(['caller', 'get'], env)
  assert.equal(after.code, 2)
  assert.match(after.stderr, /signed out/)
})

test('a person who loses all groups loses the keys of gatehouse login too, but not those made on purpose', async () => {
  const person = newPerson({ email: 'x@elsewhere.example' })
  const walker = await signIn(person)
  const { verifier, challenge } = newVerifier()
  const { body: started } = await begin(challenge)
  await call(walker, 'POST', '/command_sign_in', { code: started.code, approve: true })
  const { body: got } = await post('/sign_in/command/token', { id: started.id, verifier })
  const { body: made } = await call(walker, 'POST', '/api_keys', {})
  assert.equal((await signIn({ ...person, groups: [] })).error, 'not_allowed')
  assert.equal((await plane.clientFor(got.token)('GET', '/caller')).status, 401)
  assert.equal((await plane.clientFor(made.token)('GET', '/caller')).status, 200)
})

const keyBelow = async (client: Client, fields: object = {}) => {
  const { body } = await client('POST', '/api_keys', fields)
  return { id: body.id, client: plane.clientFor(body.token) }
}
const isAdmin = { groups: ['ops'] }
/** What links a person to a user of their own. */
async function newLink({ sub }: Person) {
  const { body: user } = await root('POST', '/users', { name: sub, email: `${sub}@link.example`, role: 'admin' })
  return { owner_id: user.id, issuer: acme.issuer, subject: sub }
}

test('a key with limits links no one, directly or in a session, because a linked person has none', async () => {
  const identity = await newLink(newPerson())
  const walker = await signIn(newPerson(isAdmin))
  const { body: caller } = await call(walker, 'GET', '/caller')
  await root('PATCH', `/api_keys/${caller.api_key.id}`, { allowed_cidrs: ['0.0.0.0/0'] })
  const limited = [
    [(await keyBelow(root, { scopes: ['identities.create'] })).client, '*'],
    [(await keyBelow(root, { allowed_cidrs: ['0.0.0.0/0'] })).client, 'any address'],
    [(method: string, path: string, body: object) => call(walker, method, path, body), 'any address'],
  ] as const
  for (const [as, missing] of limited) {
    const { status, body } = await as('POST', '/identities', identity)
    assert.deepEqual([status, body.error_code, body.details.missing], [403, 'ERR_SCOPE', missing])
  }
})

test('revoke_descendants ends identities linked with a leaked key, their sessions and their keys', async () => {
  const leaked = await keyBelow(root)
  const between = await keyBelow(leaked.client)
  const linkedBy = async (as: Client) => {
    const person = newPerson(isAdmin)
    const { body: identity } = await as('POST', '/identities', await newLink(person))
    const walker = await signIn(person)
    assert.equal((await call(walker, 'GET', '/caller')).body.owner_id, identity.owner_id)
    return { person, identity, walker }
  }
  const [direct, below, other] = [
    await linkedBy(leaked.client),
    await linkedBy(between.client),
    await linkedBy(root),
  ] as const
  assert.equal(direct.identity.created_by_key_id, leaked.id)
  const { body: made } = await call(direct.walker, 'POST', '/api_keys', {})
  await root('DELETE', `/api_keys/${between.id}`)
  assert.equal((await root('DELETE', `/api_keys/${leaked.id}?revoke_descendants=true`)).status, 204)
  assert.deepEqual(await Promise.all([direct, below, other].map(({ walker }) => statusOf(walker))), [401, 401, 200])
  assert.equal((await plane.clientFor(made.token)('GET', '/caller')).status, 401)
  const { body: audited } = await root('GET', `/audit_events?resource_id=${direct.identity.id}`)
  const [{ operation, before }] = audited.audit_events
  assert.deepEqual([operation, before.subject], ['api_keys.delete', direct.person.sub])
  const { body: again } = await call(await signIn(direct.person), 'GET', '/caller')
  assert.notEqual(again.owner_id, direct.identity.owner_id, 'the link is gone')
})

test('no session survives that an identity opens at the moment of the revocation', async () => {
  for (let round = 0; round < 4; round++) {
    const leaked = await keyBelow(root)
    const person = newPerson(isAdmin)
    const { body: identity } = await leaked.client('POST', '/identities', await newLink(person))
    const [{ status }, ...walkers] = await Promise.all([
      root('DELETE', `/api_keys/${leaked.id}?revoke_descendants=true`),
      ...Array.from({ length: 3 }, () => signIn(person)),
    ])
    assert.equal(status, 204)
    for (const walker of walkers) {
      const { status, body } = await call(walker, 'GET', '/caller')
      assert.ok(status === 401 || body.owner_id !== identity.owner_id)
    }
  }
})

test('a sign-in creates no user beyond the quota of the account, and says so', async () => {
  const { body } = await root('GET', '/caller')
  const quota = { account: toUuid(body.account_id), users: body.quotas.users.used }
  await run(plane.db, sql`insert into account_quotas values (${quota.account}, 'users', ${quota.users})`)
  assert.equal((await signIn()).error, 'quota_reached')
  await run(plane.db, sql`delete from account_quotas`)
  assert.equal((await signIn()).error, null)
})

test('a narrowed sign-in key opens no session, and a deleted one is replaced', async () => {
  const person = newPerson()
  const walker = await signIn(person)
  const { body: caller } = await call(walker, 'GET', '/caller')
  await root('PATCH', `/api_keys/${caller.api_key.id}`, { scopes: ['*.get'] })
  assert.equal(await statusOf(walker), 401)
  assert.equal((await signIn(person)).error, 'key_limited')
  await root('DELETE', `/api_keys/${caller.api_key.id}`)
  assert.equal((await signIn(person)).error, null)
})

test('the dashboard and api restrictions of the account decide about a sign-in', async () => {
  const policy = await policyWith(root, 'allow 127.0.0.1/32', 'allow 203.0.113.0/24')
  await restrict(root, { type: 'dashboard', ip_policy_ids: [policy], enforced: true })
  assert.equal((await signIn(newPerson(), newWalker('203.0.113.77'))).error, null)
  const refused = await signIn(newPerson(), newWalker('198.51.100.201'))
  assert.equal(refused.error, 'address_refused')
  assert.equal(await statusOf(refused), 401)
})

test('an address that fails again and again has to wait, and the audit is not filled', async () => {
  const walker = newWalker('192.0.2.200')
  const locations: string[] = []
  for (let i = 0; i < 14; i++)
    locations.push((await walker.step(`${origin}/sign_in/oidc/acme/callback?state=x`)).headers.get('location') ?? '')
  assert.equal(locations.filter((location) => location.includes('not_started_here')).length >= 10, true)
  assert.match(locations.at(-1) ?? '', /too_many_attempts/)
})
