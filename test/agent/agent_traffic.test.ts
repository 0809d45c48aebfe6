import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { before, type TestContext, test } from 'node:test'
import { WebSocket, WebSocketServer } from 'ws'
import { stop } from '../harness/control_plane.ts'
import { startInstallation } from '../harness/edge.ts'
import { make, newHttpsEdge } from '../harness/fixtures.ts'
import { policyWith, restrict } from '../harness/ip.ts'
import { loadScaledTimeout } from '../harness/load_scaled_timeout.ts'
import { holdsFor, poll } from '../harness/poll.ts'
import { exchange, startHttpUpstream } from './http_harness.ts'
import { dial, hold, newGuardedEdge, startTcpUpstream, wholeFile } from './live_harness.ts'

const file = wholeFile()
const installation = await startInstallation(file)
const { admin } = installation
let edge = await installation.startEdge()
const upstream = await startTcpUpstream(file)
const web = await startHttpUpstream(file as unknown as TestContext, 'web')
const [allowed, refused] = ['127.0.0.2', '127.0.0.3']
let guarded: Awaited<ReturnType<typeof newGuardedEdge>>
before(async () => {
  guarded = await newGuardedEdge(admin, edge.tcpPorts.first, upstream.port, 'allow 127.0.0.0/8')
  const https = await newHttpsEdge(admin, { hostports: ['web.example:443'] })
  const backend = await make(admin, '/backends/static', { address: `127.0.0.1:${web.port}` })
  const route = { match_type: 'path_prefix', match: '/', backend: { backend_id: backend.id } }
  const created = await admin('POST', `${https.uri}/routes?wait=applied`, route)
  assert.equal(created.headers.get('service-applied'), '1/1', created.text)
})
const inForce = async (answer: Promise<{ headers: Pick<Headers, 'get'>; text: string }>) => {
  const { headers, text } = await answer
  assert.equal(headers.get('service-applied'), '1/1', `${text} ${headers.get('service-behind')}`)
}
const answerTo = async (from: string) => ({
  tcp: await dial(guarded.port, from),
  https: (await exchange(edge, 'GET / HTTP/1.1\r\nHost: web.example\r\n\r\n', { from, servername: 'web.example' }))
    .status,
})
const letIn = { tcp: 'hello', https: 200 }
const kept = { tcp: undefined, https: 403 }

test('an endpoints restriction applies to all edges of the account; unenforced, it only counts', async () => {
  const policyId = await policyWith(admin, `allow ${allowed}`)
  const restriction = await restrict(admin, { type: 'endpoints', ip_policy_ids: [policyId], enforced: false })
  await inForce(admin('PATCH', `${restriction.uri}?wait=applied`, { enforced: false, description: 'trial' }))
  assert.deepEqual([await answerTo(allowed), await answerTo(refused)], [letIn, letIn])
  const { body } = await poll(
    () => admin('GET', `${restriction.uri}/warnings`),
    ({ body: { warnings } }) => warnings.length > 0 && warnings[0].count >= 2,
  )
  assert.deepEqual(
    body.warnings.map(({ source_ip, count }: { source_ip: string; count: number }) => [source_ip, count]),
    [[refused, 2]],
  )
  await inForce(admin('PATCH', `${restriction.uri}?wait=applied`, { enforced: true }))
  assert.deepEqual([await answerTo(allowed), await answerTo(refused)], [letIn, kept])
  await inForce(admin('DELETE', `${restriction.uri}?wait=applied`))
  assert.deepEqual([await answerTo(allowed), await answerTo(refused)], [letIn, letIn])
})

test('an expired rule has no effect at the edge, from two seconds after it expired at the latest', async () => {
  const port = edge.tcpPorts.first + 1
  const { policyId } = await newGuardedEdge(admin, port, upstream.port, `allow ${allowed}`)
  const expiresAt = Date.now() + loadScaledTimeout(5_000)
  await inForce(
    admin('POST', '/ip_policy_rules?wait=applied', {
      ip_policy_id: policyId,
      action: 'allow',
      cidr: refused,
      expires_at: new Date(expiresAt).toISOString(),
    }),
  )
  assert.equal(await dial(port, refused), 'hello')
  await poll(
    () => dial(port, refused),
    (answer) => answer === undefined,
  )
  const late = Date.now() - expiresAt
  assert.ok(late > -50 && late < loadScaledTimeout(2_000), `${late} ms after it expired`)
  assert.equal(await dial(port, allowed), 'hello')
})

/** Whether a held connection still carries anything. */
const isOpen = async (socket: Socket): Promise<boolean> => {
  if (socket.destroyed || !socket.writable) return false
  socket.write('are you there?')
  return Promise.race([once(socket, 'data').then(() => true), once(socket, 'close').then(() => false)])
}

test('open connections are kept when rules change, unless the operator wants them closed', async (t) => {
  const port = edge.tcpPorts.first + 2
  const made = await newGuardedEdge(admin, port, upstream.port, 'allow 127.0.0.0/28')
  const policy = `/ip_policies/${made.policyId}/rules?wait=applied`
  const rules = (text: string) => admin('PUT', policy, undefined, { rawBody: text, contentType: 'text/plain' })
  const held = await hold(port, refused)
  const other = await hold(guarded.port, refused)
  t.after(() => [held, other].forEach((socket) => void socket.destroy()))
  await inForce(rules(`allow ${allowed}`))
  assert.equal(await dial(port, refused), undefined)
  assert.equal(await isOpen(held), true)
  held.destroy()

  await stop(edge.child)
  edge = await installation.startEdge({ like: edge, env: { GATEHOUSE_EDGE_OPEN_CONNECTIONS: 'close' } })
  await inForce(rules('allow 127.0.0.0/28'))
  const [closing, bystander] = [await hold(port, refused), await hold(guarded.port, refused)]
  await inForce(rules(`allow ${allowed}`))
  assert.equal(await isOpen(closing), false)
  assert.equal(await isOpen(bystander), true)
  const last = await hold(port, allowed)
  const deleted = await admin('DELETE', `${made.edge.uri}?wait=applied`)
  assert.equal(deleted.headers.get('service-applied'), '1/1')
  assert.equal(await isOpen(last), false)
  assert.equal(await dial(port, allowed), undefined)
  assert.equal(await isOpen(bystander), true)
  bystander.destroy()
})

test('open WebSockets are closed when the rules of their route change, if the operator wants that, and others stay', async (t) => {
  await stop(edge.child)
  edge = await installation.startEdge({ like: edge, env: { GATEHOUSE_EDGE_OPEN_CONNECTIONS: 'close' } })
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' })
  await once(server, 'listening')
  t.after(() => server.close())
  const { port } = server.address() as { port: number }
  const backend = await make(admin, '/backends/static', { address: `127.0.0.1:${port}` })
  const https = await newHttpsEdge(admin, { hostports: ['sockets.example:443'] })
  const newRoute = async (match: string) => {
    const policyId = await policyWith(admin, 'allow 127.0.0.0/8')
    const modules = { backend: { backend_id: backend.id }, ip_restriction: { ip_policy_ids: [policyId] } }
    await inForce(admin('POST', `${https.uri}/routes?wait=applied`, { match_type: 'path_prefix', match, ...modules }))
    return policyId
  }
  const changed = await newRoute('/changed')
  await newRoute('/other')
  const open = async (path: string) => {
    const named = { servername: 'sockets.example', headers: { Host: 'sockets.example' }, rejectUnauthorized: false }
    const socket = new WebSocket(`wss://127.0.0.1:${edge.httpsPort}${path}`, named)
    socket.on('error', () => {})
    t.after(() => socket.terminate())
    await once(socket, 'open')
    return socket
  }
  const [closing, bystander] = [await open('/changed'), await open('/other')]
  const rules = `/ip_policies/${changed}/rules?wait=applied`
  await inForce(admin('PUT', rules, undefined, { rawBody: `allow ${allowed}`, contentType: 'text/plain' }))
  await poll(() => closing.readyState === WebSocket.CLOSED)
  await holdsFor(200, () => bystander.readyState === WebSocket.OPEN)
})
