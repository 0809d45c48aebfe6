import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { publicUrl } from '../harness/client.ts'
import { nothingWasADefect } from '../harness/defects.ts'
import {
  assertRefused,
  newHttpsEdge,
  newPolicy,
  newRoute,
  newTcpEdge,
  refOf,
  shownPolicies,
} from '../harness/fixtures.ts'
import { sharedControlPlane } from '../harness/shared_control_plane.ts'

const plane = await sharedControlPlane({ after })
const admin = await plane.newAccount()
const [office, home, vpn] = [await newPolicy(admin), await newPolicy(admin), await newPolicy(admin)]

const moduleOf = async (fields: object = {}) => `${(await newTcpEdge(admin, fields)).uri}/ip_restriction`
const put = (path: string, body: object) => admin('PUT', path, body)

test('§1 the module is replaced, read and deleted', async () => {
  const path = await moduleOf()
  assertRefused(await admin('GET', path), 404, 'ERR_NOT_FOUND')
  const first = await put(path, { ip_policy_ids: [office.id] })
  assert.equal(first.status, 200, first.text)
  const replaced = await put(path, { enabled: false, ip_policy_ids: [home.id, vpn.id] })
  assert.deepEqual(replaced.body, { enabled: false, ...shownPolicies(home, vpn) })
  assert.deepEqual((await admin('GET', path)).body, replaced.body)
  assert.equal((await admin('DELETE', path)).status, 204)
  assertRefused(await admin('GET', path), 404, 'ERR_NOT_FOUND')
  assert.equal((await admin('DELETE', path)).status, 204)
})

test('§2 the identifiers carry their type prefixes: edgtcp_ for a TCP edge, ipp_ for an IP policy', async () => {
  const edge = await newTcpEdge(admin)
  assert.match(edge.id, /^edgtcp_./)
  const { body } = await put(`/edges/tcp/${edge.id}/ip_restriction`, { ip_policy_ids: [office.id] })
  assert.match(body.ip_policies[0].id, /^ipp_./)
})

test('§2.3 Ref id: the resource identifier', async () => {
  const { body } = await put(await moduleOf(), { ip_policy_ids: [office.id] })
  assert.equal(body.ip_policies[0].id, office.id)
})

test('§2.3 Ref uri: the URI for locating the resource', async () => {
  const { body } = await put(await moduleOf(), { ip_policy_ids: [office.id] })
  const [ref] = body.ip_policies
  assert.equal(ref.uri, `${publicUrl}/ip_policies/${office.id}`)
  assert.deepEqual((await admin('GET', ref.uri)).body, office)
})

test('§2.3 a Ref is id and uri, and nothing else', async () => {
  const { body } = await put(await moduleOf(), { ip_policy_ids: [office.id] })
  assert.deepEqual(Object.keys(body.ip_policies[0]), ['id', 'uri'])
})

test('§2.4 enabled: true and false come back as sent', async () => {
  const path = await moduleOf()
  for (const enabled of [true, false, true]) {
    assert.equal((await put(path, { enabled, ip_policy_ids: [office.id] })).body.enabled, enabled)
    assert.equal((await admin('GET', path)).body.enabled, enabled)
  }
})

test('§2.4 enabled: true if unspecified, even when the module that is replaced was disabled', async () => {
  const path = await moduleOf()
  assert.equal((await put(path, { ip_policy_ids: [office.id] })).body.enabled, true)
  await put(path, { enabled: false, ip_policy_ids: [office.id] })
  assert.equal((await put(path, { ip_policy_ids: [office.id] })).body.enabled, true)
})

test('§2.4 enabled: a boolean, and nothing that looks like one', async () => {
  const path = await moduleOf()
  for (const enabled of ['true', 'false', 1, 0, null, '', [], {}])
    assertRefused(await put(path, { enabled, ip_policy_ids: [office.id] }), 400, 'ERR_INVALID_FIELD', 'enabled')
  assert.equal((await admin('GET', path)).status, 404)
})

test('§2.4 ip_policies: a list of Ref of all policies sent, in the order sent', async () => {
  const path = await moduleOf()
  for (const order of [
    [office, home, vpn],
    [vpn, office, home],
    [home, vpn, office],
    [vpn, home, office],
  ]) {
    const { body } = await put(path, { ip_policy_ids: order.map(({ id }) => id) })
    assert.deepEqual(body.ip_policies, order.map(refOf))
    assert.deepEqual((await admin('GET', path)).body.ip_policies, order.map(refOf))
  }
})

test('§2.4 requests send ip_policy_ids instead of ip_policies', async () => {
  const path = await moduleOf()
  const both = { ip_policy_ids: [office.id], ip_policies: [refOf(vpn)] }
  assertRefused(await put(path, both), 400, 'ERR_INVALID_FIELD', 'ip_policies')
  assertRefused(await put(path, { ip_policies: [refOf(office)] }), 400, 'ERR_INVALID_FIELD', 'ip_policy_ids')
})

test('§2.4 ip_policy_ids: a list of strings, each the id of an IP policy', async () => {
  const path = await moduleOf()
  for (const ids of ['x', office.id, {}, null, 7])
    assertRefused(await put(path, { ip_policy_ids: ids }), 400, 'ERR_INVALID_FIELD', 'ip_policy_ids')
  for (const id of [null, 7, '', 'x', admin.adminId, refOf(office), [office.id]])
    assertRefused(await put(path, { ip_policy_ids: [home.id, id] }), 400, 'ERR_INVALID_FIELD', 'ip_policy_ids[1]')
})

test('§2.4 ip_policy_ids: at least one, at most 100, none twice', async () => {
  const path = await moduleOf()
  const refused = async (ids: string[], field = 'ip_policy_ids') =>
    assertRefused(await put(path, { ip_policy_ids: ids }), 400, 'ERR_INVALID_FIELD', field)
  await refused([])
  await refused([office.id, home.id, office.id], 'ip_policy_ids[2]')
  await refused(Array.from({ length: 101 }, (_, index) => `ipp_0${String(index).padStart(25, '0')}`))
  assertRefused(await put(path, {}), 400, 'ERR_INVALID_FIELD', 'ip_policy_ids')
})

test('§2.4 ip_policy_ids: all existing in the account, else 400 that names the first that does not, and nothing is changed', async () => {
  const foreign = await newPolicy(await plane.newAccount())
  const deleted = await newPolicy(admin)
  await admin('DELETE', deleted.uri)
  const path = await moduleOf({ ip_restriction: { ip_policy_ids: [vpn.id] } })
  for (const id of [foreign.id, deleted.id, 'ipp_00000000000000000000000000']) {
    const answer = await put(path, { ip_policy_ids: [office.id, id, home.id] })
    assertRefused(answer, 400, 'ERR_INVALID_FIELD', 'ip_policy_ids[1]')
  }
  assert.deepEqual((await admin('GET', path)).body, { enabled: true, ...shownPolicies(vpn) })
})

test('§2.4 the module has no id, uri or created_at in responses', async () => {
  const path = await moduleOf()
  const { body } = await put(path, { ip_policy_ids: [office.id] })
  assert.deepEqual(Object.keys(body), ['enabled', 'mode', 'ip_policy_ids', 'ip_policies'])
  assert.deepEqual(Object.keys((await admin('GET', path)).body), ['enabled', 'mode', 'ip_policy_ids', 'ip_policies'])
})

test('§2.4 response-only fields and unknown fields are refused in requests', async () => {
  const path = await moduleOf()
  for (const field of ['id', 'uri', 'created_at', 'description', 'Enabled', 'enforced'])
    assertRefused(await put(path, { ip_policy_ids: [office.id], [field]: 'x' }), 400, 'ERR_INVALID_FIELD', field)
})

test('§4.3 {id} is the identifier of a TCP edge: with any other it is the same 404', async () => {
  const stranger = await plane.newAccount()
  const [foreign, gone] = [await newTcpEdge(stranger), await newTcpEdge(admin)]
  await admin('DELETE', gone.uri)
  const route = await newRoute(admin)
  const ids = [foreign.id, gone.id, route.id, route.edge_id, office.id, gone.id.toUpperCase(), 'edgtcp_', 'x', '%00']
  for (const [method, body] of [['PUT', { ip_policy_ids: [office.id] }], ['GET'], ['DELETE']] as const) {
    for (const id of ids) {
      const answer = await admin(method, `/edges/tcp/${id}/ip_restriction`, body)
      assertRefused(answer, 404, 'ERR_NOT_FOUND')
      assert.equal(answer.body.msg, 'This account has no such TCP edge.')
    }
  }
  assert.equal((await stranger('GET', foreign.uri)).body.ip_restriction, null)
})

test('§4.3 Replace: 200 with the module (enabled, ip_policies), whether one was set before or not', async () => {
  const path = await moduleOf()
  for (const ids of [[office.id], [home.id]]) {
    const { status, body } = await put(path, { enabled: true, ip_policy_ids: ids })
    assert.equal(status, 200)
    const ip_policies = [{ id: ids[0], uri: `${publicUrl}/ip_policies/${ids[0]}` }]
    assert.deepEqual(body, { enabled: true, mode: 'enforce', ip_policies, ip_policy_ids: ids })
  }
})

test('§4.3 Replace: the whole module is replaced, with nothing left of the previous one', async () => {
  const path = await moduleOf({ ip_restriction: { enabled: false, ip_policy_ids: [office.id, home.id] } })
  await put(path, { ip_policy_ids: [vpn.id] })
  assert.deepEqual((await admin('GET', path)).body, { enabled: true, ...shownPolicies(vpn) })
})

test('§4.3 Replace: the same module again is 200 and changes nothing', async () => {
  const path = await moduleOf()
  const first = await put(path, { ip_policy_ids: [office.id] })
  const again = await put(path, { ip_policy_ids: [office.id] })
  assert.deepEqual([again.status, again.body], [200, first.body])
  assert.ok(first.headers.has('service-generation'))
  assert.ok(!again.headers.has('service-generation'))
})

test('§4.3 Get: 200 with the module, as the edge shows it too', async () => {
  const edge = await newTcpEdge(admin, { ip_restriction: { enabled: false, ip_policy_ids: [home.id, office.id] } })
  const { status, body } = await admin('GET', `${edge.uri}/ip_restriction`)
  assert.equal(status, 200)
  assert.deepEqual(body, { enabled: false, ...shownPolicies(home, office) })
  assert.deepEqual((await admin('GET', edge.uri)).body.ip_restriction, body)
})

test('§4.3 Delete: 204 with no body, and the edge stays', async () => {
  const edge = await newTcpEdge(admin, { ip_restriction: { ip_policy_ids: [office.id] } })
  const { status, text, headers } = await admin('DELETE', `${edge.uri}/ip_restriction`)
  assert.deepEqual([status, text, headers.get('content-type')], [204, '', null])
  assert.deepEqual((await admin('GET', edge.uri)).body, { ...edge, ip_restriction: null })
})

test("§4.3 one edge's module is not another's", async () => {
  const [one, other] = [await moduleOf(), await moduleOf({ ip_restriction: { ip_policy_ids: [office.id] } })]
  await put(one, { enabled: false, ip_policy_ids: [home.id] })
  await admin('DELETE', one)
  assert.deepEqual((await admin('GET', other)).body, { enabled: true, ...shownPolicies(office) })
})

test('§4.3 an HTTPS edge has no such module of its own: its routes have', async () => {
  const edge = await newHttpsEdge(admin)
  assertRefused(await admin('GET', `${edge.uri}/ip_restriction`), 404, 'ERR_ROUTE_NOT_FOUND')
})

nothingWasADefect(plane)
