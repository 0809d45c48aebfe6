// `npm run drill -- shared-fate <seconds>`: a self-connecting edge and 2,000 idle connections from one address: no honest
// request fails, and how much slower they get. Their p99 may at most double.
import { fork } from 'node:child_process'
import { Agent, request } from 'node:https'
import { createServer, type Socket } from 'node:net'
import type { TestContext } from 'node:test'
import { usageMetrics } from '../../src/agent/haproxy/config/limits.ts'
import { edgeSettings } from '../../src/config/edge.ts'
import { putHttpsEdge, putRoute, startHttpUpstream } from '../agent/http_harness.ts'
import { type Edge, id, openConnection, startEdge } from '../agent/proxy_harness.ts'
import { drill } from '../harness/drill.ts'
import { pause } from '../harness/poll.ts'
import { quantile } from '../harness/quantiles.ts'

const [seconds, role, port] = [Number(process.argv[2] ?? 20), process.argv[3], Number(process.argv[4])]
const idleConnections = 2_000

// The attackers are processes of their own: what they do must cost the node, not the clock of those who measure.
if (role === 'idle') {
  for (let count = 0; count < idleConnections; count++) openConnection({ port, from: '127.0.0.6' }).resume()
  await new Promise(() => {})
} else if (role === 'loop') {
  for (;;) {
    const socket = openConnection({ port, from: '127.0.0.7' })
    socket.resume()
    await new Promise((resolve) => socket.on('close', resolve))
    await pause(50)
  }
}

await drill(async (scope) => {
  const t = scope as unknown as TestContext
  const maxconn = Number(edgeSettings.GATEHOUSE_EDGE_MAX_CONNECTIONS.default)
  const edge = await startEdge(t, { certificates: ['app.example.com'], maxconn })
  await putRoute(edge, await putHttpsEdge(edge), await startHttpUpstream(t, 'honest'))
  const [loop, held] = [edge.tcpPort, edge.tcpPort + 1]
  await putTcpEdge(edge, loop, loop)
  await putTcpEdge(edge, held, await startSilent(t))

  const quiet = await measure(edge, seconds)
  const attackers = [
    fork(import.meta.filename, [String(seconds), 'loop', String(loop)]),
    fork(import.meta.filename, [String(seconds), 'idle', String(held)]),
  ]
  const attacked = await measure(edge, seconds)
  for (const attacker of attackers) attacker.kill('SIGKILL')
  const after = await usageMetrics(edge.settings)

  for (const [name, { asked, failed, p50, p99, most }] of Object.entries({ quiet, attacked }))
    console.log(
      `${name}: ${asked} honest requests in ${seconds} s, ${failed} failed, p50 ${p50.toFixed(1)} ms, p99 ${p99.toFixed(1)} ms, at most ${most} connections on the node`,
    )
  const ratio = attacked.p99 / quiet.p99
  console.log(`p99 under attack is ${ratio.toFixed(2)} of the quiet p99`)
  for (const [name, value] of Object.entries(after)) console.log(`${name} ${value}`)
  return attacked.failed === 0 && quiet.failed === 0 && ratio <= 2
})

async function putTcpEdge(edge: Edge, at: number, upstreamPort: number): Promise<void> {
  const [tcp, backend] = [id('edgtcp'), id('bkdst')]
  await edge.put({
    [`backend.${backend}`]: { address: '127.0.0.1', port: upstreamPort, tls: false, host: 'upstream.test' },
    [`tcp.${tcp}`]: { account: id('ac'), hostports: [`127.0.0.1:${at}`], backend, policies: null },
  })
}

async function startSilent(t: TestContext): Promise<number> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket.resume())
    socket.on('error', () => {})
    socket.on('close', () => sockets.delete(socket))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(async () => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return (server.address() as { port: number }).port
}

/** Clients at eight addresses, each with a connection that it keeps, and every tenth request on a new one. */
async function measure(edge: Edge, forSeconds: number) {
  const times: number[] = []
  let [failed, most] = [0, 0]
  const end = Date.now() + forSeconds * 1_000
  const clients = Array.from({ length: 8 }, async (_, index) => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    for (let count = 0; Date.now() < end; count++) {
      const began = performance.now()
      const status = await ask(edge, `127.0.1.${index + 1}`, count % 10 === 0 ? false : agent).catch(() => 0)
      times.push(performance.now() - began)
      if (status !== 200) failed++
      await pause(20)
    }
    agent.destroy()
  })
  const watch = (async () => {
    while (Date.now() < end) {
      const { gatehouse_edge_connections = 0 } = (await usageMetrics(edge.settings)) as Record<string, number>
      most = Math.max(most, gatehouse_edge_connections)
      await pause(200)
    }
  })()
  await Promise.all([...clients, watch])
  return { asked: times.length, failed, p50: quantile(times, 0.5), p99: quantile(times, 0.99), most }
}

function ask(edge: Edge, localAddress: string, agent: Agent | false): Promise<number> {
  return new Promise((resolve, reject) => {
    const named = { servername: 'app.example.com', headers: { host: 'app.example.com' } }
    const where = { host: '127.0.0.1', port: edge.httpsPort, localAddress, rejectUnauthorized: false, timeout: 10_000 }
    const sent = request({ ...where, ...named, agent }, (response) => {
      response.resume().on('end', () => resolve(response.statusCode ?? 0))
    })
    sent.on('timeout', () => sent.destroy(new Error('no answer')))
    sent.on('error', reject).end()
  })
}
