import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { after, test } from 'node:test'
import { startInstallation } from '../harness/edge.ts'

const installation = await startInstallation({ after })
const { admin } = installation
const edge = await installation.startEdge()

let accepts = 0
const upstream = createServer((socket) => {
  accepts++
  socket.on('error', () => {}).end('hello')
}).listen(0, '127.0.0.1')
await once(upstream, 'listening')
after(() => upstream.close())
const upstreamPort = (upstream.address() as { port: number }).port

/** What a client at a source address gets from a TCP edge; undefined when it was not let in. */
const dial = (port: number, localAddress: string): Promise<string | undefined> =>
  new Promise((resolve) => {
    let text = ''
    const socket: Socket = connect({ port, host: '127.0.0.1', localAddress })
    socket.on('data', (chunk) => {
      text += chunk
    })
    socket.on('error', () => {})
    socket.on('close', () => resolve(text || undefined))
  })

test('a TCP edge admits only addresses that its policies allow, as soon as the API reports the change as applied', async () => {
  const port = edge.tcpPorts.first
  const { body: backend } = await admin('POST', '/backends/static', { address: `127.0.0.1:${upstreamPort}` })
  const { body: policy } = await admin('POST', '/ip_policies', {})
  await admin('PUT', `/ip_policies/${policy.id}/rules`, undefined, {
    rawBody: 'allow 127.0.0.0/28\ndeny 127.0.0.3',
    contentType: 'text/plain',
  })
  const created = await admin('POST', '/edges/tcp?wait=applied', {
    hostports: [`tcp.example:${port}`],
    backend: { backend_id: backend.id },
    ip_restriction: { ip_policy_ids: [policy.id] },
  })
  assert.equal(created.status, 201, created.text)
  assert.equal(created.headers.get('service-applied'), '1/1', JSON.stringify([...created.headers]))
  assert.equal(await dial(port, '127.0.0.2'), 'hello')
  const before = accepts
  assert.equal(await dial(port, '127.0.0.3'), undefined)
  assert.equal(await dial(port, '127.0.0.99'), undefined)
  assert.equal(accepts, before)
  const removed = await admin('DELETE', `${created.body.uri}/ip_restriction?wait=applied`)
  assert.equal(removed.headers.get('service-applied'), '1/1')
  assert.equal(await dial(port, '127.0.0.99'), 'hello')
  const generation = Number(removed.headers.get('service-generation'))
  const { body } = await admin('GET', `/generations/${generation}`)
  assert.deepEqual(
    { live: body.live_nodes, applied: body.applied_nodes, behind: body.behind },
    { live: 1, applied: 1, behind: [] },
  )
})
