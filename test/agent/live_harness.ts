import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { after } from 'node:test'
import type { Account, Scope } from '../harness/control_plane.ts'
import type { EdgeProcess } from '../harness/edge.ts'
import { make } from '../harness/fixtures.ts'
import { policyWith } from '../harness/ip.ts'
import { loadScaledTimeout } from '../harness/load_scaled_timeout.ts'

/** The whole file, also for what is started within a test: `after` there would mean the end of that test. */
export function wholeFile(): Scope {
  const cleanUps: (() => Promise<void>)[] = []
  after(async () => {
    for (const cleanUp of cleanUps.reverse()) await cleanUp()
  })
  return { after: (cleanUp) => cleanUps.push(cleanUp) }
}

/** Greets every admitted client, and keeps the connection open if the client sends something first. */
export async function startTcpUpstream(scope: Scope) {
  const open = new Set<Socket>()
  const server = createServer((socket) => {
    open.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => open.delete(socket))
    socket.write('hello')
    socket.on('data', (text) => (text.toString() === 'bye' ? socket.end() : socket.write(text)))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  scope.after(async () => {
    for (const socket of open) socket.destroy()
    server.close()
  })
  return { port: (server.address() as { port: number }).port }
}

/** What a client at a source address gets from a TCP edge; undefined when it was not let in. */
export const dial = (port: number, localAddress: string, host = '127.0.0.1'): Promise<string | undefined> =>
  new Promise((resolve) => {
    let text = ''
    const socket = connect({ port, host, localAddress })
    socket.setTimeout(loadScaledTimeout(60_000), () => socket.destroy())
    socket.on('data', (chunk) => {
      if (!text) socket.write('bye')
      text += chunk
    })
    socket.on('error', () => {})
    socket.on('close', () => resolve(text || undefined))
  })

/** A connection that stays: resolves once it has been let in. */
export async function hold(port: number, localAddress: string): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', localAddress })
  socket.on('error', () => {})
  await once(socket, 'data')
  return socket
}

// biome-ignore lint/suspicious/noExplicitAny: what the node says of itself has no schema.
export const statusOf = async ({ statusUrl }: EdgeProcess): Promise<any> => (await fetch(`${statusUrl}/status`)).json()

/** A TCP edge with its own policy, in force on every node. */
export async function newGuardedEdge(as: Account, port: number, upstreamPort: number, ...rules: string[]) {
  const backend = await make(as, '/backends/static', { address: `127.0.0.1:${upstreamPort}` })
  const policyId = await policyWith(as, ...rules)
  const created = await as('POST', '/edges/tcp?wait=applied', {
    hostports: [`tcp.example:${port}`],
    backend: { backend_id: backend.id },
    ip_restriction: { ip_policy_ids: [policyId] },
  })
  assert.equal(created.status, 201, created.text)
  assert.match(
    created.headers.get('service-applied') ?? '',
    /^([1-9]\d*)\/\1$/,
    created.headers.get('service-behind') ?? '',
  )
  return { port, policyId, backend, edge: created.body, generation: Number(created.headers.get('service-generation')) }
}
