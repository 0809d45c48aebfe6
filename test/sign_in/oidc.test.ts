// Signing in with a provider: what works, and what an attacker between us, or at another provider, would try.
import assert from 'node:assert/strict'
import { after, beforeEach, test } from 'node:test'
import { newSessionSecret } from '../../src/identity/token.ts'
import type { Answer } from '../harness/client.ts'
import { behindProxy } from '../harness/ip.ts'
import { newKey, type Person } from './provider.ts'
import { startSignIn } from './set_up.ts'
import { newWalker, type Walker } from './walk.ts'

const plane = await startSignIn({ after }, behindProxy)
const { origin, acme, other } = plane
const root = plane.clientFor((await plane.named('acme')).token)
const otherRoot = plane.clientFor((await plane.named('other')).token)

beforeEach(() => {
  acme.forge = acme.forgedWith = undefined
  acme.isDown = false
})

let people = 0
const newPerson = (fields: Partial<Person> = {}): Person => {
  const sub = `subject-${++people}`
  return {
    sub,
    name: `Person ${people}`,
    email: `${sub}@acme.example`,
    email_verified: true,
    groups: ['staff'],
    ...fields,
  }
}

const startOf = (provider: string, returnTo = '/dashboard/keys') =>
  `${origin}/sign_in/oidc/${provider}?return_to=${encodeURIComponent(returnTo)}`
const isCallback = ({ href }: URL) => href.startsWith(`${origin}/sign_in/oidc/`) && href.includes('/callback')

/** Signs in as far as the address is one of the dashboard. */
async function signIn(person: Person, walker = newWalker(), provider: 'acme' | 'other' = 'acme') {
  plane[provider].person = person
  const end = await walker.walk(startOf(provider), ({ pathname }) => pathname.startsWith('/dashboard/'))
  return { walker, end, error: end.searchParams.get('sign_in_error') }
}

/** As far as the provider sends the browser back, which is left to the test. */
async function upToCallback(person: Person, walker = newWalker()) {
  acme.person = person
  return { walker, callback: await walker.walk(startOf('acme'), isCallback) }
}

async function callerOf({ step }: Walker): Promise<{ status: number; body: Record<string, string> }> {
  const response = await step(`${origin}/caller`, { headers: { 'service-version': '2' } })
  return { status: response.status, body: (await response.json()) as Record<string, string> }
}
const eventsOf = async (operation: string, client = root): Promise<Answer['body'][]> =>
  (await client('GET', `/audit_events?operation=${operation}&limit=100`)).body.audit_events
const lastFailure = async (client = root) => (await eventsOf('sign_in.failed', client))[0]?.after

test('a first sign-in creates the user and opens a session, and a second one finds the same user', async () => {
  const person = newPerson({ groups: ['guests'] })
  const { walker, end, error } = await signIn(person)
  assert.equal(error, null)
  assert.equal(end.href, `${origin}/dashboard/keys`)
  const { status, body } = await callerOf(walker)
  assert.equal(status, 200)
  assert.equal(body.role, 'viewer')
  const again = await callerOf((await signIn(person)).walker)
  assert.equal(again.body.owner_id, body.owner_id)
  const { body: user } = await root('GET', `/users/${body.owner_id}`)
  assert.deepEqual([user.name, user.email, user.role], [person.name, person.email, 'viewer'])
  const [succeeded] = await eventsOf('sign_in.succeeded')
  assert.equal(succeeded.owner_id, body.owner_id)
  assert.deepEqual(succeeded.after, {
    method: 'oidc',
    provider: 'acme',
    issuer: acme.issuer,
    subject: person.sub,
    role: 'viewer',
  })
  const { body: listed } = await root('GET', '/identities')
  assert.equal(listed.identities.filter(({ owner_id }: { owner_id: string }) => owner_id === body.owner_id).length, 1)
})

test('roles follow the groups at every sign-in', async () => {
  const person = newPerson()
  const { walker } = await signIn(person)
  assert.equal((await callerOf(walker)).body.role, 'member')
  await signIn({ ...person, groups: ['ops'] })
  assert.equal((await callerOf(walker)).body.role, 'admin', 'of the older session too')
  await signIn({ ...person, groups: ['guests', 'unknown'] })
  assert.equal((await callerOf(walker)).body.role, 'viewer')
})

test('a person who has lost all groups is refused, and the sessions from before end', async () => {
  const person = newPerson({ email: 'x@elsewhere.example' })
  const { walker } = await signIn(person)
  const stranger = await signIn(newPerson())
  assert.equal((await callerOf(walker)).status, 200)
  const { error } = await signIn({ ...person, groups: [] })
  assert.equal(error, 'not_allowed')
  assert.equal((await callerOf(walker)).status, 401)
  assert.equal((await callerOf(stranger.walker)).status, 200, 'the sessions of others do not')
  assert.equal((await lastFailure()).reason, 'not_allowed')
})

test('a wrong state, and one that another browser began, is refused and opens nothing', async () => {
  const { walker, callback } = await upToCallback(newPerson())
  const thief = newWalker()
  // With a cookie of its own: what it lacks is that of the browser that began.
  await thief.step(startOf('acme'))
  const wrong = new URL(callback)
  wrong.searchParams.set('state', newSessionSecret())
  for (const [who, address] of [
    [walker, wrong],
    [thief, callback],
  ] as const) {
    const end = await who.walk(address.href, ({ pathname }) => pathname.startsWith('/dashboard/'))
    assert.equal(end.searchParams.get('sign_in_error'), 'not_started_here')
    assert.equal((await callerOf(who)).status, 401)
  }
  assert.equal((await lastFailure()).reason, 'not_started_here')
  // The honest one has lost nothing by it.
  await walker.step(callback.href)
  assert.equal((await callerOf(walker)).status, 200)
})

test('a response that is repeated is refused', async () => {
  const { walker, callback } = await upToCallback(newPerson())
  await walker.step(callback.href)
  const again = await walker.step(callback.href)
  assert.match(again.headers.get('location') ?? '', /sign_in_error=not_started_here/)
})

test('a code that was redeemed before is refused', async () => {
  const first = await upToCallback(newPerson())
  const code = first.callback.searchParams.get('code') ?? ''
  await first.walker.step(first.callback.href)
  // In a sign-in of its own, so that only the code is old.
  const { walker, callback } = await upToCallback(newPerson())
  callback.searchParams.set('code', code)
  const end = await walker.walk(callback.href, ({ pathname }) => pathname.startsWith('/dashboard/'))
  assert.equal(end.searchParams.get('sign_in_error'), 'invalid_response')
  assert.equal((await callerOf(walker)).status, 401)
})

for (const [what, forge, note] of [
  ['a wrong nonce', (claims) => ({ ...claims, nonce: 'another' }), /nonce/],
  ['no nonce', ({ nonce: _, ...claims }) => claims, /nonce/],
  ['an expired ID token', (claims) => ({ ...claims, exp: Math.floor(Date.now() / 1_000) - 60 }), /exp/],
  ['an ID token for another client', (claims) => ({ ...claims, aud: 'another' }), /aud/],
  ['an ID token of another issuer', (claims) => ({ ...claims, iss: 'https://evil.example' }), /iss/],
] as [string, NonNullable<typeof acme.forge>, RegExp][])
  test(`${what} is refused`, async () => {
    acme.forge = forge
    const { walker, error } = await signIn(newPerson())
    assert.equal(error, 'invalid_response')
    assert.equal((await callerOf(walker)).status, 401)
    const failure = await lastFailure()
    assert.equal(failure.reason, 'invalid_response')
    assert.match(failure.note, note)
  })

test('an ID token with a wrong signature is refused, under a known and under an unknown key id', async () => {
  await signIn(newPerson())
  const { keys } = (await (await fetch(`${acme.issuer}/jwks`)).json()) as { keys: { kid: string }[] }
  for (const key of [await newKey(keys[0]?.kid), await newKey()]) {
    acme.forge = (claims) => claims
    acme.forgedWith = key
    const { walker, error } = await signIn(newPerson())
    assert.equal(error, 'invalid_response')
    assert.match((await lastFailure()).note, /signature|applicable key/)
    assert.equal((await callerOf(walker)).status, 401)
  }
})

test('after the provider has changed its keys, the next sign-in works', async () => {
  assert.equal((await signIn(newPerson())).error, null)
  await acme.rotateKeys()
  assert.equal((await signIn(newPerson())).error, null)
})

test('a provider cannot finish what another began, nor speak in its name', async () => {
  const { walker, callback } = await upToCallback(newPerson())
  assert.equal(callback.searchParams.get('iss'), acme.issuer)
  // Its response at the address of another provider.
  const elsewhere = new URL(callback.href.replace('/oidc/acme/', '/oidc/other/'))
  const there = await walker.step(elsewhere.href)
  assert.match(there.headers.get('location') ?? '', /sign_in_error=not_started_here/)
  // And with the issuer of another, or none, where the provider promises to say it.
  for (const iss of [other.issuer, undefined]) {
    const next = await upToCallback(newPerson())
    if (iss) next.callback.searchParams.set('iss', iss)
    else next.callback.searchParams.delete('iss')
    const end = await next.walker.step(next.callback.href)
    assert.match(end.headers.get('location') ?? '', /sign_in_error=invalid_response/)
    assert.equal((await callerOf(next.walker)).status, 401)
  }
})

test('the same subject and email at two providers are two users of two accounts', async () => {
  const person = newPerson()
  const one = await callerOf((await signIn(person)).walker)
  const two = await callerOf((await signIn(person, newWalker(), 'other')).walker)
  assert.equal(two.status, 200)
  assert.notEqual(two.body.account_id, one.body.account_id)
  assert.equal((await otherRoot('GET', `/users/${one.body.owner_id}`)).status, 404)
  const { body } = await otherRoot('GET', '/identities')
  assert.ok(body.identities.every(({ issuer }: { issuer: string }) => issuer === other.issuer))
})

test('an existing user is taken over only by a verified address of an allowed domain, and only once', async () => {
  const { body: invited } = await root('POST', '/users', { name: 'Eve', email: 'Eve@acme.example', role: 'member' })
  const claim = { email: 'eve@acme.example' }
  for (const email_verified of [false, 'true', undefined]) {
    const { walker, error } = await signIn(newPerson({ ...claim, email_verified }))
    assert.equal(error, 'email_taken', String(email_verified))
    assert.equal((await callerOf(walker)).status, 401)
  }
  const { body: outside } = await root('POST', '/users', { name: 'Olaf', email: 'olaf@elsewhere.example' })
  assert.equal((await signIn(newPerson({ email: outside.email }))).error, 'email_taken')
  const eve = newPerson(claim)
  assert.equal((await callerOf((await signIn(eve)).walker)).body.owner_id, invited.id)
  assert.equal((await signIn(newPerson(claim))).error, 'email_taken', 'another subject with the same address')
  assert.equal(
    (await callerOf((await signIn({ ...eve, email: 'renamed@acme.example' })).walker)).body.owner_id,
    invited.id,
  )
})

test('the verified address of userinfo does not vouch for another address in the ID token', async () => {
  const boss = await root('POST', '/users', { name: 'Boss', email: 'boss@acme.example', role: 'admin' })
  acme.forge = (claims) => ({ ...claims, email: boss.body.email })
  const { walker, error } = await signIn(newPerson())
  assert.equal(error, 'email_taken')
  assert.equal((await callerOf(walker)).status, 401)
  const { walker: own } = await signIn(newPerson({ email: boss.body.email }))
  assert.equal((await callerOf(own)).body.owner_id, boss.body.id, 'both name the same address')
})

test('a provider without link_by_email takes over no user', async () => {
  const { body: user } = await otherRoot('POST', '/users', { name: 'Finn', email: 'finn@acme.example', role: 'admin' })
  const { error } = await signIn(newPerson({ email: user.email }), newWalker(), 'other')
  assert.equal(error, 'email_taken')
})

test('an inactive user cannot sign in, and a deleted identity ends its sessions', async () => {
  const person = newPerson()
  const { walker } = await signIn(person)
  const { body } = await callerOf(walker)
  await root('PATCH', `/users/${body.owner_id}`, { active: false })
  assert.equal((await signIn(person)).error, 'user_inactive')
  assert.equal((await callerOf(walker)).status, 401)
  await root('PATCH', `/users/${body.owner_id}`, { active: true })
  const back = await signIn(person)
  assert.equal((await callerOf(back.walker)).status, 200)
  const { body: all } = await root('GET', '/identities?limit=100')
  const identity = all.identities.find(({ subject }: { subject: string }) => subject === person.sub)
  assert.equal((await root('DELETE', `/identities/${identity.id}`)).status, 204)
  assert.equal((await callerOf(back.walker)).status, 401)
})

test('the last admin stays one, and the audit says so', async () => {
  // Root is the other admin of the account: afterwards it is so again.
  const { owner_id } = (await otherRoot('GET', '/caller')).body
  const boss = newPerson({ groups: ['ops'] })
  const { walker } = await signIn(boss, newWalker(), 'other')
  for (const { id, role } of (await otherRoot('GET', '/users')).body.users)
    if (role === 'admin' && id !== owner_id && id !== (await callerOf(walker)).body.owner_id)
      await otherRoot('PATCH', `/users/${id}`, { role: 'member' })
  await otherRoot('PATCH', `/users/${owner_id}`, { role: 'member' })
  const again = await signIn({ ...boss, groups: ['guests'] }, newWalker(), 'other')
  assert.equal((await callerOf(again.walker)).body.role, 'admin')
  const response = await again.walker.step(`${origin}/audit_events?operation=sign_in.succeeded`, {
    headers: { 'service-version': '2' },
  })
  const [event] = ((await response.json()) as Answer['body']).audit_events
  assert.deepEqual([event.after.role_kept, event.after.role_claimed], ['last_admin', 'viewer'])
})

test('while a provider is down its sessions continue, and new sign-ins say what is wrong', async () => {
  const { walker } = await signIn(newPerson())
  const { walker: late, callback } = await upToCallback(newPerson())
  acme.isDown = true
  assert.equal((await callerOf(walker)).status, 200)
  const end = await late.step(callback.href)
  assert.match(
    end.headers.get('location') ?? '',
    /^http.*\/dashboard\/\?sign_in_error=provider_unavailable&provider=acme/,
  )
  const never = await newWalker().step(startOf('down'))
  assert.match(never.headers.get('location') ?? '', /sign_in_error=provider_unavailable&provider=down/)
  assert.equal((await fetch(`${origin}/readyz`)).status, 200)
})

test('after signing in the browser stays here, even if the link asked for another site', async () => {
  for (const returnTo of [
    'https://evil.example/',
    '//evil.example',
    '/\\evil.example',
    '/dashboard/../../evil',
    '/dashboard/\\..\\..\\evil',
    '/dashboard/%0d%0aSet-Cookie:x=y\r\nx',
    'javascript:alert(1)',
  ]) {
    const walker = newWalker()
    acme.person = newPerson()
    const callback = await walker.walk(startOf('acme', returnTo), isCallback)
    const { headers } = await walker.step(callback.href)
    assert.ok(headers.get('location')?.startsWith(`${origin}/dashboard/`), `${returnTo}: ${headers.get('location')}`)
    assert.ok(!headers.get('location')?.includes('..'), returnTo)
  }
})

test('what the provider refuses is a refusal here', async () => {
  const { walker, callback } = await upToCallback(newPerson())
  const state = callback.searchParams.get('state') ?? ''
  const refused = new URL(callback.origin + callback.pathname)
  refused.search = new URLSearchParams({ error: 'access_denied', state, iss: acme.issuer }).toString()
  const end = await walker.step(refused.href)
  assert.match(end.headers.get('location') ?? '', /sign_in_error=refused_by_provider/)
})

test('no secret of a sign-in is in the log, the audit or the metrics', async () => {
  const { walker, callback } = await upToCallback(newPerson())
  await walker.step(callback.href)
  const secrets = [...callback.searchParams.values(), ...(walker.cookies.get(new URL(origin).host)?.values() ?? [])]
  const known = [acme.issuer]
  const log = JSON.stringify(plane.processes.map((process) => process.log))
  const audit = JSON.stringify((await root('GET', '/audit_events?limit=100')).body)
  const metrics = await (await fetch(`${origin}/metrics`)).text()
  for (const secret of secrets.filter((text) => !known.includes(text)))
    for (const [place, text] of Object.entries({ log, audit, metrics }))
      assert.ok(!text.includes(secret), `${place} has ${secret}`)
  assert.match(metrics, /gatehouse_sign_ins_total\{provider="acme",outcome="succeeded"\} \d+/)
  assert.match(metrics, /gatehouse_sign_ins_total\{provider="acme",outcome="not_allowed"\} 1/)
})
