import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { publicUrl } from '../harness/client.ts'
import { nothingWasADefect } from '../harness/defects.ts'
import { assertRefused, make, newBackend, newPolicy, newRoute, newTcpEdge, shownBackend } from '../harness/fixtures.ts'
import { sharedControlPlane } from '../harness/shared_control_plane.ts'

const plane = await sharedControlPlane({ after })
const [admin, stranger] = [await plane.newAccount(), await plane.newAccount()]
const path = '/backends/static'

test('a new backend has id, uri, created_at, address and tls, and no TLS unless it is asked for', async () => {
  const { status, body } = await admin('POST', path, { address: 'app.internal:8080' })
  assert.equal(status, 201)
  const { id, uri, created_at, status: _health, ...rest } = body
  assert.match(id, /^bkdst_[0-9a-z]{26}$/)
  assert.equal(uri, `${publicUrl}${path}/${id}`)
  assert.match(created_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  assert.deepEqual(rest, {
    address: 'app.internal:8080',
    tls: { enabled: false },
    protocol: 'http1',
    send_proxy_protocol: false,
    health_check: null,
  })
})

test('a backend can be read, changed and deleted; PATCH keeps omitted fields', async () => {
  const backend = await newBackend(admin, { description: 'd', metadata: 'm', tls: { enabled: true } })
  assert.deepEqual((await admin('GET', backend.uri)).body, backend)
  assert.deepEqual((await admin('PATCH', backend.uri, {})).body, backend)
  const moved = await admin('PATCH', backend.uri, { id: backend.id, address: 'Other.internal:1' })
  assert.deepEqual(moved.body, { ...backend, address: 'other.internal:1' })
  const plain = await admin('PATCH', backend.uri, { tls: { enabled: false } })
  assert.deepEqual(plain.body, { ...moved.body, tls: { enabled: false } })
  const { description: _, ...rest } = plain.body
  assert.deepEqual((await admin('PATCH', backend.uri, { description: null })).body, rest)
  assert.equal((await admin('DELETE', backend.uri)).status, 204)
  assertRefused(await admin('GET', backend.uri), 404, 'ERR_NOT_FOUND')
  assertRefused(await admin('DELETE', backend.uri), 404, 'ERR_NOT_FOUND')
})

test("backends are listed newest first, as a GET shows each, and only one's own", async () => {
  const mine = await plane.newAccount()
  const backends = []
  for (let count = 0; count < 3; count++) backends.unshift(await newBackend(mine))
  const { body } = await mine('GET', path)
  assert.deepEqual(body, { backends, uri: publicUrl + path, next_page_uri: null })
  const { body: page } = await mine('GET', `${path}?limit=2`)
  assert.deepEqual((await mine('GET', page.next_page_uri)).body.backends, backends.slice(2))
})

test("another account's backend, an absent and a malformed one are the same 404", async () => {
  const foreign = await newBackend(stranger)
  for (const id of [foreign.id, 'bkdst_00000000000000000000000000', 'x']) {
    for (const [method, body] of [['GET'], ['PATCH', {}], ['DELETE']] as const)
      assertRefused(await admin(method, `${path}/${id}`, body), 404, 'ERR_NOT_FOUND')
  }
})

test('address is host:port: a DNS name or an address, any port, kept in its one spelling; several backends may have the same', async () => {
  for (const [sent, kept] of [
    ['APP.Internal:1', 'app.internal:1'],
    ['localhost:65535', 'localhost:65535'],
    ['192.0.2.1:80', '192.0.2.1:80'],
    ['[2001:DB8:0:0::1]:443', '[2001:db8::1]:443'],
  ])
    for (let again = 0; again < 2; again++) assert.equal((await newBackend(admin, { address: sent })).address, kept)
})

test('anything but host:port is refused, on create and on PATCH', async () => {
  const backend = await newBackend(admin)
  const addresses = [
    '',
    'app',
    'app:',
    ':80',
    'app:0',
    'app:65536',
    'app:080',
    '192.0.2.01:80',
    '10.1:80',
    '[::1]',
    '::1:80',
    '*.app:80',
  ]
  for (const address of [
    ...addresses,
    'http://app:80',
    'app:80/',
    'a_b:80',
    'app:80\n',
    'fe80::1%eth0:80',
    `${'a.'.repeat(150)}b:1`,
    null,
  ]) {
    assertRefused(await admin('POST', path, { address }), 400, 'ERR_INVALID_FIELD', 'address')
    assertRefused(await admin('PATCH', backend.uri, { address }), 400, 'ERR_INVALID_FIELD', 'address')
  }
  assertRefused(await admin('POST', path, {}), 400, 'ERR_INVALID_FIELD', 'address')
})

test('send_proxy_protocol is false by default, and a PATCH that leaves it out keeps it', async () => {
  const { body } = await admin('POST', path, { address: 'tcp:1', send_proxy_protocol: true })
  assert.equal(body.send_proxy_protocol, true)
  assert.equal((await admin('PATCH', body.uri, { address: 'tcp:2' })).body.send_proxy_protocol, true)
  assert.equal((await admin('PATCH', body.uri, { send_proxy_protocol: false })).body.send_proxy_protocol, false)
  for (const send_proxy_protocol of ['v2', '', null, 1])
    assertRefused(
      await admin('PATCH', body.uri, { send_proxy_protocol }),
      400,
      'ERR_INVALID_FIELD',
      'send_proxy_protocol',
    )
})

test('protocol is http1 or http2, and a PATCH that leaves it out keeps it', async () => {
  const { body } = await admin('POST', path, { address: 'grpc:1', protocol: 'http2' })
  assert.equal(body.protocol, 'http2')
  assert.equal((await admin('PATCH', body.uri, { address: 'grpc:2' })).body.protocol, 'http2')
  assert.equal((await admin('PATCH', body.uri, { protocol: 'http1' })).body.protocol, 'http1')
  for (const protocol of ['h2', 'HTTP2', '', null, 2])
    assertRefused(await admin('PATCH', body.uri, { protocol }), 400, 'ERR_INVALID_FIELD', 'protocol')
})

test('tls is an object with enabled, a boolean', async () => {
  const send = (tls: unknown) => admin('POST', path, { address: 'app:1', tls })
  for (const tls of [null, true, 'on', []]) assertRefused(await send(tls), 400, 'ERR_INVALID_FIELD', 'tls')
  for (const tls of [{ enabled: null }, { enabled: 'true' }])
    assertRefused(await send(tls), 400, 'ERR_INVALID_FIELD', 'tls.enabled')
  assertRefused(await send({ enabled: true, verify: false }), 400, 'ERR_INVALID_FIELD', 'tls.verify')
  assert.deepEqual((await send({})).body.tls, { enabled: false })
})

test('a backend module is replaced, read and deleted on its own path, of TCP edges and of routes', async () => {
  const [one, two] = [await newBackend(admin), await newBackend(admin)]
  for (const { uri } of [await newTcpEdge(admin), await newRoute(admin)]) {
    const module = `${uri}/backend`
    assertRefused(await admin('GET', module), 404, 'ERR_NOT_FOUND')
    const first = await admin('PUT', module, { enabled: false, backend_id: one.id })
    assert.deepEqual([first.status, first.body], [200, { enabled: false, ...shownBackend(one) }])
    const second = await admin('PUT', module, { backend_id: two.id })
    assert.deepEqual(second.body, { enabled: true, ...shownBackend(two) })
    assert.deepEqual((await admin('GET', module)).body, second.body)
    assert.deepEqual((await admin('GET', second.body.backend.uri)).body, two)
    for (const status of [204, 204]) assert.equal((await admin('DELETE', module)).status, status)
    assertRefused(await admin('GET', module), 404, 'ERR_NOT_FOUND')
  }
})

test('a backend module names a static backend of the account, else 400', async () => {
  const module = `${(await newTcpEdge(admin)).uri}/backend`
  const [foreign, gone] = [await newBackend(stranger), await newBackend(admin)]
  await admin('DELETE', gone.uri)
  for (const backend_id of [
    foreign.id,
    gone.id,
    'bkdst_00000000000000000000000000',
    'x',
    (await newPolicy(admin)).id,
    null,
  ])
    assertRefused(await admin('PUT', module, { backend_id }), 400, 'ERR_INVALID_FIELD', 'backend_id')
  assertRefused(await admin('PUT', module, {}), 400, 'ERR_INVALID_FIELD', 'backend_id')
})

test('deleting a backend in use gets 409 and names its users; once they are gone, it succeeds', async () => {
  const backend = await newBackend(admin)
  const inline = { backend: { enabled: false, backend_id: backend.id } }
  const users = [await newTcpEdge(admin, inline), await newRoute(admin, inline)]
  const refused = await admin('DELETE', backend.uri)
  assertRefused(refused, 409, 'ERR_BACKEND_IN_USE')
  assert.deepEqual(refused.body.details.used_by.split(', ').sort(), users.map(({ id }) => id).sort())
  for (const { id } of users) assert.ok(refused.body.msg.includes(id))
  assert.deepEqual((await admin('GET', backend.uri)).body, backend)
  await admin('DELETE', `${users[0].uri}/backend`)
  assert.equal((await admin('DELETE', backend.uri)).body.details.used_by, users[1].id)
  await admin('PATCH', users[1].uri, { backend: null })
  assert.equal((await admin('DELETE', backend.uri)).status, 204)
})

test('deleting a policy in use gets 409 and names its users: edges, routes and restrictions', async () => {
  const policy = await newPolicy(admin)
  const inline = { ip_restriction: { ip_policy_ids: [policy.id] } }
  const restriction = { type: 'endpoints', ip_policy_ids: [policy.id] }
  const users = [
    await newTcpEdge(admin, inline),
    await newRoute(admin, inline),
    await make(admin, '/ip_restrictions', restriction),
  ]
  for (let remaining = users; remaining.length; remaining = remaining.slice(1)) {
    const refused = await admin('DELETE', policy.uri)
    assertRefused(refused, 409, 'ERR_IP_POLICY_IN_USE')
    assert.deepEqual(refused.body.details.used_by.split(', ').sort(), remaining.map(({ id }) => id).sort())
    assert.equal((await admin('DELETE', remaining[0].uri)).status, 204)
  }
  assert.equal((await admin('DELETE', policy.uri)).status, 204)
})

test('attaching races deleting: no edge ends up with a deleted backend or policy', async () => {
  for (let round = 0; round < 30; round++) {
    const [policy, backend, edge] = [await newPolicy(admin), await newBackend(admin), await newTcpEdge(admin)]
    const modules = { backend: { backend_id: backend.id }, ip_restriction: { ip_policy_ids: [policy.id] } }
    const [attached, ...deleted] = await Promise.all([
      admin('PATCH', edge.uri, modules),
      admin('DELETE', policy.uri),
      admin('DELETE', backend.uri),
    ])
    const expected = attached.status === 200 ? [409, 409] : deleted.map(({ status }) => status)
    assert.deepEqual(
      deleted.map(({ status }) => status),
      expected,
    )
    if (attached.status !== 200) assertRefused(attached, 400, 'ERR_INVALID_FIELD', attached.body.details.field)
    const { body: now } = await admin('GET', edge.uri)
    if (now.backend) assert.equal((await admin('GET', now.backend.backend.uri)).status, 200)
    if (now.ip_restriction) assert.equal((await admin('GET', now.ip_restriction.ip_policies[0].uri)).status, 200)
  }
})

nothingWasADefect(plane)
