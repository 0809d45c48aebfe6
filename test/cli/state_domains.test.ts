// Reserved domains in a state file: certificates by id, never their keys.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { newCertificate } from '../harness/certificates.ts'
import { startControlPlane } from '../harness/control_plane.ts'
import { make } from '../harness/fixtures.ts'
import { cliFor } from './harness.ts'
import { stateFile } from './state_harness.ts'

const plane = await startControlPlane({ after })
const admin = await plane.newAccount()
const cli = cliFor(plane, admin)
const one = newCertificate(['shop.example'])
const certificate = await make(admin, '/tls_certificates', one)
const fileWith = (fields: string) =>
  stateFile(`gatehouse: 1\nreserved_domains:\n  shop: {domain: shop.example${fields}}\n`)
const certificateOf = async () => (await admin('GET', '/reserved_domains')).body.reserved_domains[0].certificate?.id

test('a domain is reserved with a certificate of the account, and a second run changes nothing', async () => {
  const file = await fileWith(`, certificate: ${certificate.id}`)
  await cli.ok(['state', 'apply', file])
  assert.equal(await certificateOf(), certificate.id)
  const again = await cli(['state', 'apply', file])
  assert.deepEqual([again.code, again.stderr], [0, 'Nothing to do.\n'])
  const dumped = await cli.ok(['state', 'dump'])
  assert.match(dumped, new RegExp(`certificate: ${certificate.id}`))
  assert.doesNotMatch(dumped, /PRIVATE KEY|BEGIN/)
  assert.equal((await cli(['state', 'diff', await stateFile(dumped)])).code, 0)
})

test('a file that does not name the certificate leaves it alone, and null removes it', async () => {
  assert.equal((await cli(['state', 'diff', await fileWith('')])).code, 0)
  const without = await fileWith(', certificate: null')
  await cli.ok(['state', 'apply', without])
  assert.equal(await certificateOf(), undefined)
  assert.equal((await cli(['state', 'diff', without])).code, 0)
  assert.doesNotMatch(await cli.ok(['state', 'dump']), /certificate/)
})

test('anything but a certificate of the account is refused, and nothing else of the domain changes', async () => {
  const { stderr, code } = await cli(['state', 'apply', await fileWith(', certificate: shop')])
  assert.notEqual(code, 0)
  assert.match(stderr, /must be an id, or null for none/)
  const other = cliFor(plane, await plane.newAccount())
  const foreign = await other(['state', 'apply', await fileWith(`, certificate: ${certificate.id}`)])
  assert.notEqual(foreign.code, 0)
  assert.match(foreign.stderr, /must be a TLS certificate of this account/)
})
