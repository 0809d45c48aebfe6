import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startControlPlane } from './harness/control_plane.ts'
import { poll } from './harness/poll.ts'

test('a status that the database does not give is unknown, fails no request, and the log says why', async (t) => {
  const { db, newAccount, processes } = await startControlPlane(t)
  const admin = await newAccount()
  // As with a version whose migration has not run: everything but the status can be read.
  await db.query({ text: 'alter table unsent_records rename to elsewhere' })
  const { status, body } = await admin('POST', '/edges/https', { hostports: ['app.example:443'] })
  assert.equal(status, 201)
  assert.deepEqual([body.status.state, body.status.code], ['unknown', 'control_plane_blind'])
  const line = await poll(() => processes[0]?.log.find(({ operation }) => operation === 'https_edges.create'))
  assert.equal(line?.status_unread, 'relation "unsent_records" does not exist')
})
