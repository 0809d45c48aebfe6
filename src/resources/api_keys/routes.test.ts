import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startControlPlane } from '../../../test/harness/control_plane.ts'

test('a key can be created, used, read, changed and deleted', async (t) => {
  const { newAccount, clientFor } = await startControlPlane(t)
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
