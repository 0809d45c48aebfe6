import assert from 'node:assert/strict'
import { test } from 'node:test'
import { make } from '../../../test/harness/fixtures.ts'
import { poll } from '../../../test/harness/poll.ts'
import { newUser } from '../../../test/harness/principals.ts'
import { sharedControlPlane } from '../../../test/harness/shared_control_plane.ts'

test('a key can be created, used, read, changed and deleted', async (t) => {
  const { newAccount, clientFor } = await sharedControlPlane(t)
  const admin = await newAccount()
  const created = await admin('POST', '/api_keys', { description: 'ci' })
  assert.equal(created.status, 201)
  const ci = clientFor(created.body.token)
  assert.equal((await ci('GET', '/caller')).body.api_key.id, created.body.id)
  const read = await ci('GET', created.body.uri)
  // That it was used is written a moment later, perhaps already.
  const { last_used_at, last_used_ip } = read.body
  assert.deepEqual(read.body, { ...created.body, token: null, last_used_at, last_used_ip })
  const changed = await ci('PATCH', created.body.uri, { description: '', metadata: '{}' })
  assert.equal(changed.body.description, undefined)
  assert.equal(changed.body.metadata, '{}')
  assert.equal((await ci('DELETE', created.body.uri)).status, 204)
  assert.equal((await ci('GET', '/caller')).status, 401)
  assert.equal((await admin('GET', created.body.uri)).status, 404)
})

test('the audit event of a created key shows what a GET shows, in whichever way the key was created', async (t) => {
  const { newAccount } = await sharedControlPlane(t)
  const admin = await newAccount()
  const { body: bot } = await admin('POST', '/bot_users', { name: 'deploy' })
  const bodies = [
    {},
    {
      owner_id: bot.id,
      description: 'ci "1"',
      metadata: '{"a": [1]}',
      expires_at: '2101-02-03T04:05:06.7891+02:00',
      scopes: ['api_keys.list', 'ip_policies.*'],
      allowed_cidrs: ['10.0.0.0/8', '192.0.2.1', '2001:DB8:0::/32'],
    },
  ]
  for (const body of bodies)
    for (const headers of [undefined, { 'Idempotency-Key': `key-${bodies.indexOf(body)}` }]) {
      const created = await admin('POST', '/api_keys', body, { ...(headers && { headers }) })
      assert.equal(created.status, 201, created.text)
      const read = await admin('GET', created.body.uri)
      const { last_used_at, last_used_ip, previous_token, ...stableFields } = read.body
      const events = await admin('GET', `/audit_events?resource_id=${created.body.id}`)
      assert.deepEqual(
        events.body.audit_events.map(({ before, after }: { before: object; after: object }) => ({ before, after })),
        [{ before: null, after: stableFields }],
      )
      assert.equal(created.headers.get('etag'), read.headers.get('etag'))
    }
})

test('the address of the last use is shown to admins and to the owner of the key only', async (t) => {
  const plane = await sharedControlPlane(t)
  const admin = await plane.newAccount()
  const [owner, other] = [await newUser(plane, admin), await newUser(plane, admin, 'viewer')]
  const key = await make(owner, '/api_keys')
  await plane.clientFor(key.token)('GET', '/caller')
  await poll(
    () => admin('GET', key.uri),
    ({ body }) => body.last_used_ip === '127.0.0.1',
  )
  assert.equal((await owner('GET', key.uri)).body.last_used_ip, '127.0.0.1')
  const { body: shown } = await other('GET', key.uri)
  assert.notEqual(shown.last_used_at, null)
  assert.equal(shown.last_used_ip, null)
  const { body: list } = await other('GET', '/api_keys')
  assert.equal(list.keys.find(({ id }: { id: string }) => id === key.id).last_used_ip, null)
})
