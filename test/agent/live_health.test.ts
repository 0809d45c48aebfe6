// From an upstream that fails to the person who wants to know why.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { test } from 'node:test'
import { createServer as createTlsServer } from 'node:tls'
import { cliFor } from '../cli/harness.ts'
import { startInstallation } from '../harness/edge.ts'
import { make } from '../harness/fixtures.ts'
import { poll } from '../harness/poll.ts'
import { authority } from './authority.ts'
import { dial, statusOf } from './live_harness.ts'

test('a failing upstream is in the API within seconds, with its reason, until its backend is repaired', async (t) => {
  const ca = await authority(t)
  const expired = createTlsServer(await ca.issue('localhost', { days: -1 }), () => {})
  expired.on('tlsClientError', () => {})
  const good = createServer((socket) => socket.on('error', () => {}).end('hello'))
  for (const server of [expired, good]) {
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    t.after(() => server.close())
  }
  const portOf = (server: { address: () => unknown }) => (server.address() as { port: number }).port
  const installation = await startInstallation(t)
  const { admin } = installation
  const edge = await installation.startEdge({ env: { GATEHOUSE_EDGE_UPSTREAM_CA_FILE: ca.caFile } })
  const address = `localhost:${portOf(expired)}`
  const backend = await make(admin, '/backends/static', { address, tls: { enabled: true } })
  const port = edge.tcpPorts.first
  const created = await admin('POST', '/edges/tcp?wait=applied', {
    hostports: [`tcp.example:${port}`],
    backend: { backend_id: backend.id },
  })
  assert.equal(created.headers.get('service-applied'), '1/1')
  assert.equal(await dial(port, '127.0.0.1'), undefined)
  const addresses = () => admin('GET', `/backends/static/${backend.id}/health`).then(({ body }) => body.addresses)
  const [found] = await poll(addresses, ([first]) => first?.reason === 'TLS: the certificate has expired')
  assert.deepEqual([found.node, found.address, found.status], ['edge-1', `127.0.0.1:${portOf(expired)}`, 'failing'])

  const printed = await cliFor(installation, admin).ok(['backends', 'static', 'health', backend.id])
  assert.match(printed, /edge-1 +127\.0\.0\.1:\d+ +failing +TLS: the certificate has expired/)
  const { upstreams } = await statusOf(edge)
  assert.deepEqual([upstreams.failing, upstreams.troubled[0].backend], [1, backend.id])
  const metrics = await (await fetch(`${edge.statusUrl}/metrics`)).text()
  assert.match(metrics, /^gatehouse_edge_upstreams\{status="failing"\} 1$/m)

  const repaired = { address: `localhost:${portOf(good)}`, tls: { enabled: false } }
  await admin('PATCH', `/backends/static/${backend.id}?wait=applied`, repaired)
  assert.equal(await dial(port, '127.0.0.1'), 'hello')
  await poll(addresses, ({ length }) => length === 0)
})
