// What viewers may do beyond test/isolation.test.ts, which tries every operation.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { assertRefused } from './harness/fixtures.ts'
import { newUser } from './harness/principals.ts'
import { signIn } from './harness/session.ts'
import { sharedControlPlane } from './harness/shared_control_plane.ts'

const plane = await sharedControlPlane({ after })

test('a viewer signs in, reads and signs out, and changes nothing on the way, not even their own key', async () => {
  const admin = await plane.newAccount()
  const viewer = await newUser(plane, admin, 'viewer')
  const browser = await signIn(viewer)
  assert.equal((await browser('GET', '/caller')).body.role, 'viewer')
  for (const as of [viewer, browser]) {
    assert.equal((await as('GET', '/api_keys')).status, 200)
    assertRefused(await as('POST', '/api_keys', {}), 403, 'ERR_FORBIDDEN')
    assertRefused(await as('POST', `/api_keys/${viewer.keyId}/rotate`, {}), 403, 'ERR_FORBIDDEN')
    assertRefused(await as('DELETE', `/api_keys/${viewer.keyId}`), 403, 'ERR_FORBIDDEN')
    assertRefused(await as('PUT', '/ip_policies/ipp_none/rules', { rules: [] }), 403, 'ERR_FORBIDDEN')
  }
  assert.equal((await browser('DELETE', '/dashboard_session')).status, 204)
})

test('a member who becomes a viewer changes nothing from the next request on', async () => {
  const admin = await plane.newAccount()
  const user = await newUser(plane, admin)
  assert.equal((await user('POST', '/ip_policies', {})).status, 201)
  assert.equal((await admin('PATCH', user.ownerUri, { role: 'viewer' })).status, 200)
  assertRefused(await user('POST', '/ip_policies', {}), 403, 'ERR_FORBIDDEN')
  assert.equal((await user('GET', '/ip_policies')).status, 200)
})

test('the last admin cannot become a viewer, and a bot cannot be one', async () => {
  const admin = await plane.newAccount()
  assertRefused(await admin('PATCH', `/users/${admin.adminId}`, { role: 'viewer' }), 409, 'ERR_LAST_ADMIN')
  assertRefused(await admin('POST', '/bot_users', { name: 'Bo', role: 'viewer' }), 400, 'ERR_INVALID_FIELD', 'role')
})
