// What the vendor's libraries read in responses, and the paths and fields that only they use. Taken from the public
// sources of the Python client 0.17.0 and the Go client v8.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { newCertificate } from './harness/certificates.ts'
import { startControlPlane } from './harness/control_plane.ts'
import { freshHost, newRoute } from './harness/fixtures.ts'
import { headersOf, json, RawConnection, requestBytes } from './harness/raw.ts'

const plane = await startControlPlane({ after }, { env: { GATEHOUSE_VERSION_HEADER_ALIASES: 'Ngrok-Version' } })
const admin = await plane.newAccount()

/** Not checked against openapi.json, which does not describe the fields that only these libraries get. */
async function vendor(method: string, uri: string, body?: object) {
  const path = uri.startsWith('http') ? uri.replace(/^https?:\/\/[^/]+/, '') : uri
  const headers = [
    ...headersOf(admin.token).filter(([name]) => name !== 'Service-Version'),
    ['Ngrok-Version', '2'],
    json,
  ]
  const connection = await RawConnection.open(plane)
  connection.write(
    requestBytes({ method, path, headers: headers as [string, string][], ...(body && { body: JSON.stringify(body) }) }),
  )
  const answer = await connection.answer()
  connection.close()
  return answer ?? assert.fail('no answer')
}

test('texts that are not set are empty for the libraries, which read them all, and absent for other clients', async () => {
  const { uri, id } = (await vendor('POST', '/api_keys', {})).body
  const shown = (await vendor('GET', uri)).body
  assert.deepEqual([shown.description, shown.metadata], ['', ''])
  const listed = (await vendor('GET', '/api_keys?limit=1')).body.keys[0]
  assert.deepEqual([listed.id, listed.description, listed.metadata], [id, '', ''])
  const own = await admin('GET', uri)
  assert.ok(!('description' in own.body) && !('metadata' in own.body))

  const route = await newRoute(admin, { description: 'set' })
  const edge = (await vendor('GET', `/edges/https/${route.edge_id}`)).body
  assert.deepEqual([edge.description, edge.routes[0].description, edge.routes[0].metadata], ['', 'set', ''])
  // With both headers it is a client of ours.
  const both = await admin('GET', uri, undefined, { headers: { 'ngrok-version': '2' } })
  assert.ok(!('description' in both.body))
})

test('the Python client reserves a domain and reads every field of it', async () => {
  const domain = freshHost()
  const created = await vendor('POST', '/reserved_domains', { domain, region: '', description: '', metadata: '' })
  assert.equal(created.status, 201, created.text)
  const { region, cname_target, acme_challenge_cname_target, description } = created.body
  assert.deepEqual([region, cname_target, acme_challenge_cname_target, description], ['', null, null, ''])
  const [listed] = (await vendor('GET', '/reserved_domains')).body.reserved_domains
  assert.deepEqual(listed, created.body)
  // A region that was asked for is not ignored, and other clients may not send one at all.
  const asked = await vendor('POST', '/reserved_domains', { domain: freshHost(), region: 'eu' })
  assert.deepEqual([asked.status, asked.body.details.field], [400, 'region'])
  assert.equal((await admin('POST', '/reserved_domains', { domain: freshHost(), region: '' })).status, 400)
  assert.ok(!('region' in (await admin('GET', created.body.uri)).body))
})

test('the certificate of a domain is taken off by DELETE, as by PATCH with null', async () => {
  const domain = freshHost()
  const { body: certificate } = await admin('POST', '/tls_certificates', newCertificate([domain]))
  const { body: reserved } = await admin('POST', '/reserved_domains', { domain, certificate_id: certificate.id })
  assert.equal(reserved.certificate.id, certificate.id)
  const stale = await admin('DELETE', `${reserved.uri}/certificate`, undefined, { headers: { 'if-match': '"x"' } })
  assert.equal(stale.status, 412)
  assert.equal((await admin('DELETE', `${reserved.uri}/certificate`)).status, 204)
  assert.equal((await admin('GET', reserved.uri)).body.certificate, null)
  assert.equal((await admin('GET', certificate.uri)).status, 200)
  const [event] = (await admin('GET', '/audit_events?limit=1')).body.audit_events
  assert.deepEqual([event.operation, event.resource_id], ['reserved_domains.certificate.delete', reserved.id])

  assert.equal((await vendor('DELETE', `${reserved.uri}/certificate_management_policy`)).status, 204)
  assert.equal((await vendor('DELETE', '/reserved_domains/rd_00000000000000000000000000/certificate')).status, 404)
})

test('the Go client manages bots under the name of service users, page by page', async () => {
  const one = await vendor('POST', '/service_users', { name: 'deployer /bot_users' })
  assert.equal(one.status, 201, one.text)
  assert.match(one.body.uri, /\/service_users\/bot_/)
  assert.equal(one.body.name, 'deployer /bot_users')
  const two = (await vendor('POST', '/service_users', { name: 'builder', active: true })).body
  const first = (await vendor('GET', '/service_users?limit=1')).body
  assert.deepEqual(
    first.service_users.map(({ id }: { id: string }) => id),
    [two.id],
  )
  assert.match(first.next_page_uri, /\/service_users\?/)
  const second = (await vendor('GET', first.next_page_uri)).body
  assert.deepEqual(second.service_users, [one.body])
  assert.equal((await vendor('PATCH', one.body.uri, { active: false })).body.active, false)
  assert.equal((await vendor('GET', one.body.uri)).body.active, false)
  assert.equal((await vendor('DELETE', one.body.uri)).status, 204)
  assert.equal((await vendor('GET', one.body.uri)).status, 404)
  assert.equal((await vendor('GET', '/service_users_of_others')).body.error_code, 'ERR_ROUTE_NOT_FOUND')
  assert.equal((await admin('GET', '/service_users')).body.error_code, 'ERR_ROUTE_NOT_FOUND')
})
