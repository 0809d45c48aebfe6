// From the API to a TLS handshake, through the real control plane, NATS and HAProxy.
import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { after, test } from 'node:test'
import { authority, issue } from '../harness/client_pki.ts'
import { type Account, stop } from '../harness/control_plane.ts'
import { startInstallation } from '../harness/edge.ts'
import { make } from '../harness/fixtures.ts'
import { poll } from '../harness/poll.ts'
import { startHttpUpstream } from './http_harness.ts'
import { visit } from './mutual_harness.ts'

const installation = await startInstallation({ after })
const { admin } = installation
const other = await installation.newAccount()
let edge = await installation.startEdge()
const upstream = await startHttpUpstream({ after })
const [root, namesake] = [authority('/CN=Clients'), authority('/CN=Clients')]
const [alice, mallory] = [
  issue({ subject: '/CN=alice', issuer: root }),
  issue({ subject: '/CN=mallory', issuer: namesake }),
]

async function newEdge(as: Account, name: string, module: object | null) {
  const backend = await make(as, '/backends/static', { address: `127.0.0.1:${upstream.port}` })
  const created = await make(as, '/edges/https', { hostports: [`${name}:443`], mutual_tls: module })
  const route = await as('POST', `/edges/https/${created.id}/routes?wait=applied`, {
    ...{ match_type: 'path_prefix', match: '/', backend: { backend_id: backend.id } },
  })
  assert.equal(route.headers.get('service-applied'), '1/1', route.headers.get('service-behind') ?? '')
  return { id: created.id as string, path: `/edges/https/${created.id}/mutual_tls?wait=applied`, name }
}
const visits = async (name: string) => {
  const statuses: number[] = []
  for (const client of [alice, mallory, undefined])
    statuses.push((await visit(edge, { servername: name, client })).status)
  return statuses
}
const applied = async (as: Account, method: string, path: string, body?: object) => {
  const { status, text, headers } = await as(method, path, body)
  assert.ok(status === 200 || status === 204, text)
  assert.equal(headers.get('service-applied'), '1/1', headers.get('service-behind') ?? '')
}

test('set, changed, disabled, removed and set with the edge: in force when it says so', async () => {
  const { path, name, id } = await newEdge(admin, 'app.example', null)
  assert.deepEqual(await visits(name), [200, 200, 200])
  await applied(admin, 'PUT', path, { certificate_authorities: [root.pem] })
  assert.deepEqual(await visits(name), [200, 0, 0])
  const { body } = await admin('GET', path.replace(/\?.*/, ''))
  assert.deepEqual(
    [
      body.certificate_authorities,
      body.mode,
      body.authorities.map(({ sha256_fingerprint: print }: { sha256_fingerprint: string }) => print),
    ],
    [[root.pem], 'required', [new X509Certificate(root.pem).fingerprint256.replaceAll(':', '').toLowerCase()]],
  )
  await applied(admin, 'PUT', path, { certificate_authorities: [root.pem, namesake.pem], mode: 'optional' })
  assert.deepEqual(await visits(name), [200, 200, 200])
  await applied(admin, 'PUT', path, { certificate_authorities: [namesake.pem] })
  assert.deepEqual(await visits(name), [0, 200, 0])
  await applied(admin, 'PUT', path, { certificate_authorities: [namesake.pem], enabled: false })
  assert.deepEqual(await visits(name), [200, 200, 200])
  await applied(admin, 'PATCH', `/edges/https/${id}?wait=applied`, {
    mutual_tls: { certificate_authorities: [root.pem] },
  })
  assert.deepEqual(await visits(name), [200, 0, 0])
  await applied(admin, 'DELETE', path)
  assert.deepEqual(await visits(name), [200, 200, 200])
})

test('two accounts on one node, a restart, and the evidence of what was refused', async () => {
  const mine = await newEdge(admin, 'mine.example', { certificate_authorities: [root.pem] })
  const theirs = await newEdge(other, 'theirs.example', { certificate_authorities: [namesake.pem] })
  const check = async () => {
    assert.deepEqual(await visits(mine.name), [200, 0, 0])
    assert.deepEqual(await visits(theirs.name), [0, 200, 0])
    assert.equal((await visit(edge, { servername: mine.name, host: theirs.name, client: alice })).status, 421)
    assert.equal((await visit(edge, { servername: theirs.name, host: mine.name, client: mallory })).status, 421)
  }
  await check()
  const requests = async (as: Account) =>
    (await as('GET', '/requests?outcome=refused')).body.requests as Record<string, unknown>[]
  const found = await poll(
    () => requests(admin),
    (some) => new Set(some.filter(({ host }) => host === mine.name).map(({ reason }) => reason)).size >= 2,
  )
  const untrusted = found.find(({ reason, host }) => reason === 'client_certificate_untrusted' && host === mine.name)
  assert.ok(untrusted && found.some(({ reason }) => reason === 'client_certificate_missing'))
  const { status, body } = await admin('GET', `/requests/${untrusted.id}`)
  assert.deepEqual([status, body.edge?.id ?? body.edge_id, body.outcome], [200, mine.id, 'refused'])
  assert.equal((await other('GET', `/requests/${untrusted.id}`)).status, 404)
  assert.ok(!(await requests(other)).some(({ host }) => host === mine.name))

  await stop(edge.child)
  edge = await installation.startEdge({ like: edge })
  await poll(async () => (await visit(edge, { servername: mine.name, client: alice })).status === 200)
  await check()
})
