import assert from 'node:assert/strict'
import { test } from 'node:test'
import { combineClaims, decide } from './decision.ts'
import type { Provider } from './provider.ts'
import { returnPath } from './return_path.ts'

const base: Provider = {
  name: 'acme',
  title: 'Acme',
  account: 'default',
  issuer: 'https://id.example',
  clientId: 'gatehouse',
  clientSecret: undefined,
  scopes: ['openid'],
  createUsers: true,
  linkByEmail: false,
  allowedDomains: ['acme.example'],
  allowedGroups: ['staff'],
  groupsClaim: 'groups',
  rolesClaim: 'groups',
  roles: { admin: ['ops'], member: ['staff'], viewer: [] },
  defaultRole: undefined,
  clockToleranceSeconds: 30,
}
const roleOf = (claims: object, provider = base) => decide(provider, { sub: 'x', ...claims }).role
const refused = (claims: object, provider = base) =>
  assert.throws(() => decide(provider, { sub: 'x', ...claims }), { reason: 'not_allowed' })

test('a domain counts only with a verified address, and only as a whole', () => {
  const provider: Provider = { ...base, defaultRole: 'viewer' }
  assert.equal(roleOf({ email: 'a@ACME.example', email_verified: true }, provider), 'viewer')
  for (const email of [
    'a@evil-acme.example',
    'a@acme.example.evil',
    'a@sub.acme.example',
    'a@b@acme.example',
    'acme.example',
  ])
    refused({ email, email_verified: true }, provider)
  for (const email_verified of [false, 'true', 1, undefined, null])
    refused({ email: 'a@acme.example', email_verified }, provider)
})

test('an address counts as verified only if the source of the address says so, or both name the same address', () => {
  const email = 'boss@acme.example'
  const emailOf = (idToken: object, userinfo: object) => {
    const { email, email_verified, sub } = combineClaims({ sub: 'x', ...idToken }, { sub: 'y', ...userinfo })
    assert.equal(sub, 'x')
    return [email, email_verified]
  }
  const verified = { email_verified: true }
  assert.deepEqual(emailOf({ email }, { email: 'mallory@acme.example', ...verified }), [email, undefined])
  assert.deepEqual(emailOf({ email }, verified), [email, undefined])
  assert.deepEqual(emailOf(verified, { email }), [email, undefined])
  assert.deepEqual(emailOf({ email, email_verified: false }, { email, ...verified }), [email, false])
  assert.deepEqual(emailOf({ email }, { email, ...verified }), [email, true])
  assert.deepEqual(emailOf({ email, ...verified }, {}), [email, true])
  assert.deepEqual(emailOf({}, { email, ...verified }), [email, true])
})

test('the highest role of the groups counts, and without one no one gets in', () => {
  assert.equal(roleOf({ groups: ['staff', 'ops'] }), 'admin')
  assert.equal(roleOf({ groups: 'staff' }), 'member')
  refused({ groups: ['Staff', 'staff ', { staff: true }] })
  refused({ groups: ['ops'] }, { ...base, allowedGroups: ['other'] })
  refused({ groups: ['staff'] }, { ...base, roles: { admin: ['ops'], member: [], viewer: [] } })
})

test('without a mapping roles are left alone, and new users get the default', () => {
  const provider: Provider = { ...base, roles: { admin: [], member: [], viewer: [] }, defaultRole: 'member' }
  const person = decide(provider, { sub: 'x', groups: ['staff'], name: ' ' })
  assert.deepEqual([person.role, person.newRole, person.name], [undefined, 'member', 'x'])
})

test('a return path is a page of the dashboard', () => {
  for (const path of ['/dashboard/', '/dashboard/keys?show=all', '/dashboard/cli-login?code=BCDF-GHJK'])
    assert.equal(returnPath(path), path)
  for (const path of [
    null,
    '',
    '/',
    '/dashboard',
    '//evil.example/dashboard/',
    'https://evil.example/dashboard/',
    '/dashboard/../x',
    '/dashboard/%2e%2e/x',
    '/dashboard/\\\\evil.example',
    '/dashboard/\n',
    `/dashboard/${'x'.repeat(2_000)}`,
  ])
    assert.equal(returnPath(path), '/dashboard/', String(path))
})
