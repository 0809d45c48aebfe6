import assert from 'node:assert/strict'
import { request } from 'node:https'
import { test } from 'node:test'
import { startInstallation } from '../harness/edge.ts'
import { make } from '../harness/fixtures.ts'
import { policyWith, restrict } from '../harness/ip.ts'
import { poll } from '../harness/poll.ts'
import { dial, newGuardedEdge, startTcpUpstream, wholeFile } from './live_harness.ts'

const scope = wholeFile()
const installation = await startInstallation(scope)
const { admin } = installation
const node = await installation.startEdge()
const upstream = await startTcpUpstream(scope)

/** The status of a request through the node, from one of this machine's addresses. */
const statusFrom = (localAddress: string, host: string): Promise<number> =>
  new Promise((resolve, reject) => {
    const where = { host: '127.0.0.1', port: node.httpsPort, localAddress, servername: host, rejectUnauthorized: false }
    request({ ...where, path: '/', headers: { host }, agent: false }, (response) => {
      response.resume()
      resolve(response.statusCode ?? 0)
    })
      .on('error', reject)
      .end()
  })

test('addresses that an edge node refuses appear in /ip_activity with the edge or route, whatever refused them', async () => {
  const { edge, port, backend } = await newGuardedEdge(
    admin,
    node.tcpPorts.first,
    upstream.port,
    'allow 127.0.0.0/28',
    'deny 127.0.0.9',
  )
  const https = await make(admin, '/edges/https', { hostports: ['app.example:443'] })
  const route = await make(admin, `${https.uri}/routes?wait=applied`, {
    match_type: 'path_prefix',
    match: '/',
    backend: { backend_id: backend.id },
    ip_restriction: { ip_policy_ids: [await policyWith(admin, 'allow 127.0.0.1')] },
  })
  for (let i = 0; i < 3; i++) assert.equal(await dial(port, '127.0.0.9'), undefined)
  for (let i = 0; i < 2; i++) assert.equal(await statusFrom('127.0.0.9', 'app.example'), 403)
  assert.equal(await dial(port, '127.0.0.2'), 'hello')
  // Refused by the account now, who was let in before; and warned of by the other.
  await restrict(admin, { type: 'endpoints', ip_policy_ids: [await policyWith(admin)] })
  const policy = await policyWith(admin, 'allow 127.0.0.1')
  const applied = await admin('POST', '/ip_restrictions?wait=applied', {
    type: 'endpoints',
    enforced: true,
    ip_policy_ids: [policy],
  })
  assert.equal(applied.headers.get('service-applied'), '1/1')
  assert.equal(await dial(port, '127.0.0.2'), undefined)

  const { body } = await poll(
    () => admin('GET', '/ip_activity'),
    (answer) => answer.body.total.endpoints.refused === 6 && answer.body.total.endpoints.warned === 1,
  )
  assert.deepEqual(
    body.edges.map(({ last_at: _, ...shown }: { last_at: string }) => shown),
    [
      { target: { id: edge.id, uri: edge.uri }, edge: null, refused: 4, refused_by_module: 3, warned: 1 },
      {
        target: { id: route.id, uri: route.uri },
        edge: { id: https.id, uri: https.uri },
        refused: 2,
        refused_by_module: 2,
        warned: 0,
      },
    ],
  )
})
