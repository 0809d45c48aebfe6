// The client authorities of an edge in a state file, before and after one has expired.
import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { after, test } from 'node:test'
import { authority } from '../harness/client_pki.ts'
import { startControlPlane } from '../harness/control_plane.ts'
import { make } from '../harness/fixtures.ts'
import { poll } from '../harness/poll.ts'
import { cliFor } from './harness.ts'
import { stateFile } from './state_harness.ts'

const plane = await startControlPlane({ after })
const admin = await plane.newAccount()
const cli = cliFor(plane, admin)
const second = 1 / 86_400

test('an authority that has expired is dumped, keeps nothing else from being changed, and is refused elsewhere', async () => {
  const { pem } = authority('/O=Tests/CN=Short', { to: 10 * second })
  const expiresAt = new X509Certificate(pem).validToDate.getTime()
  const edge = await make(admin, '/edges/https', { mutual_tls: { certificate_authorities: [pem] } })
  const before = await cli.ok(['state', 'dump'])
  assert.match(before, /BEGIN CERTIFICATE/)
  await poll(() => Date.now() > expiresAt)

  const dumped = await cli.ok(['state', 'dump'])
  assert.equal(dumped, before)
  assert.equal((await cli(['state', 'diff', await stateFile(dumped)])).code, 0)
  const described = dumped.replace(/^( +)(mutual_tls:)/m, '$1description: with an old authority\n$1$2')
  assert.notEqual(described, dumped)
  await cli.ok(['state', 'apply', await stateFile(described)])
  const { body } = await admin('GET', `/edges/https/${edge.id}`)
  assert.deepEqual([body.description, body.mutual_tls.certificate_authorities], ['with an old authority', [pem]])

  // Disabled, enabled or in another account, it would be set: that is refused, and says why.
  const elsewhere = cliFor(plane, await plane.newAccount())
  const refused = await elsewhere(['state', 'apply', await stateFile(dumped)])
  assert.notEqual(refused.code, 0)
  assert.match(refused.stderr, /certificate_authorities\[0\].*expired on/)
})
