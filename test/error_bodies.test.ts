// What an error tells: every field at fault, and where its code is explained.
import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { after, test } from 'node:test'
import { publicUrl } from './harness/client.ts'
import { startControlPlane } from './harness/control_plane.ts'
import { nothingWasADefect } from './harness/defects.ts'
import { newPolicy } from './harness/fixtures.ts'

const plane = await startControlPlane({ after })
const admin = await plane.newAccount()
const fieldsOf = ({ errors }: { errors: { field: string }[] }) => errors.map(({ field }) => field)

test('every invalid field is reported at once, and the first as before', async () => {
  const { status, body } = await admin('POST', '/api_keys', { a: 1, b: 2, description: 3, scopes: [], owner_id: 'x' })
  assert.deepEqual([status, body.error_code], [400, 'ERR_INVALID_FIELD'])
  assert.deepEqual(fieldsOf(body).toSorted(), ['a', 'b', 'description', 'owner_id', 'scopes'])
  assert.deepEqual(body.errors[0], { field: body.details.field, msg: body.msg })
  assert.equal(body.details.errors, fieldsOf(body).join(', '))
  assert.match(
    body.errors.find(({ field }: { field: string }) => field === 'description').msg,
    /^description must be a string/,
  )
})

test('entries of lists, nested fields, missing fields and parameters of the query are among them', async () => {
  const policy = await newPolicy(admin)
  const restriction = await admin('POST', '/ip_restrictions', { ip_policy_ids: [policy.id, 'x', 3], enforced: 'yes' })
  assert.deepEqual(fieldsOf(restriction.body).toSorted(), ['enforced', 'ip_policy_ids[1]', 'ip_policy_ids[2]', 'type'])
  const edge = await admin('POST', '/edges/tcp', {
    backend: { enabled: 1 },
    ip_restriction: { ip_policy_ids: [], x: 1 },
  })
  assert.deepEqual(fieldsOf(edge.body).toSorted(), [
    'backend.backend_id',
    'backend.enabled',
    'ip_restriction.ip_policy_ids',
    'ip_restriction.x',
  ])
  const list = await admin('GET', '/api_keys?limit=0&color=red')
  assert.deepEqual(fieldsOf(list.body).toSorted(), ['color', 'limit'])
  const domain = await admin('POST', '/reserved_domains', {
    domain: 'errors.example',
    certificate_management_policy: { authority: 'x', private_key_type: 'y' },
    certificate_id: 'x',
  })
  assert.ok(fieldsOf(domain.body).includes('certificate_id'), domain.text)
  assert.doesNotMatch(domain.text, /must be null|anyOf/)
})

test('a fault that only the service can see is listed like any other', async () => {
  const { body } = await admin('POST', '/ip_policy_rules', {
    ip_policy_id: (await newPolicy(admin)).id,
    action: 'allow',
    cidr: '10.0.0.1/8',
  })
  assert.deepEqual(body.errors, [{ field: 'cidr', msg: body.msg }])
})

test('details holds only strings, so that typed clients can read it', async () => {
  const { body } = await admin('POST', '/api_keys', { a: 1, b: 2, metadata: [] })
  assert.deepEqual([...new Set(Object.values(body.details).map((value) => typeof value))], ['string'])
})

test('however many fields are wrong, the response stays small', async () => {
  const many = Object.fromEntries(Array.from({ length: 900 }, (_, index) => [`unknown_${index}`, 1]))
  const short = await admin('POST', '/api_keys', many)
  assert.equal(short.body.errors.length, 20)
  assert.ok(short.text.length < 8_000, `${short.text.length} characters`)
  const long = Object.fromEntries(Array.from({ length: 20 }, (_, index) => [`${index}${'x'.repeat(2_000)}`, 1]))
  assert.ok((await admin('POST', '/api_keys', long)).text.length < 20_000)
  const entries = await admin('POST', '/api_keys', { scopes: Array.from({ length: 20_000 }, () => 1), description: 1 })
  assert.equal(entries.body.errors.length, 1, 'a large body is not searched to its end')
})

test('every error links to its entry in the documentation of the installation', async () => {
  const refused = await Promise.all([
    admin('GET', '/api_keys/x'),
    admin('POST', '/api_keys', { description: 1 }),
    admin('GET', '/nothing'),
    admin('GET', '/api_keys', undefined, { headers: { authorization: 'Bearer x' } }),
  ])
  for (const { body } of refused)
    assert.equal(body.doc_url, `${publicUrl}/docs/reference/errors.html#${body.error_code.toLowerCase()}`)
})

test('so does the answer to what is not HTTP', async () => {
  const socket = connect(plane.processes[0]?.port ?? 0, '127.0.0.1')
  socket.write('nonsense\r\n\r\n')
  assert.match(await text(socket), /"doc_url":"[^"]+\/docs\/reference\/errors\.html#err_malformed_request"/)
})

test('an installation without documentation links to none', async () => {
  const { origin } = await plane.startProcess({ GATEHOUSE_DOCS: 'off' })
  const body = JSON.parse(await (await fetch(`${origin}/api_keys`)).text())
  assert.deepEqual([body.error_code, 'doc_url' in body], ['ERR_SERVICE_VERSION', false])
})

nothingWasADefect(plane)
