// Requests through a real edge node, from addresses of this machine.
import { once } from 'node:events'
import { createServer } from 'node:http'
import { request } from 'node:https'
import { connect } from 'node:net'
import type { Scope } from '../harness/control_plane.ts'
import { type EdgeProcess, startInstallation } from '../harness/edge.ts'
import { freshHost, newBackend, newHttpsEdge } from '../harness/fixtures.ts'
import { behindProxy } from '../harness/ip.ts'
import { edgeIps, pathAt, previewAtRandom, type Reach, type Route } from './random.ts'

async function startUpstream(
  scope: Scope,
  { httpsPort }: EdgeProcess,
  { host, port }: { host: string; port: number },
): Promise<{ upstream: string; reach: Reach }> {
  const server = createServer((_, response) => response.end('hello')).listen(0, '127.0.0.1')
  await once(server, 'listening')
  scope.after(async () => {
    server.closeAllConnections()
    server.close()
  })
  const reach: Reach = {
    route: (path, localAddress) =>
      new Promise((resolve, reject) => {
        const where = { host: '127.0.0.1', port: httpsPort, localAddress, servername: host, rejectUnauthorized: false }
        request({ ...where, path, headers: { host }, agent: false }, (response) => {
          response.resume()
          resolve(response.statusCode === 200)
        })
          .on('error', reject)
          .end()
      }),
    tcp: (localAddress) =>
      new Promise((resolve) => {
        let text = ''
        const socket = connect({ port, host: '127.0.0.1', localAddress })
        socket.on('connect', () => socket.write('GET / HTTP/1.0\r\n\r\n'))
        socket.on('data', (data) => {
          text += data
        })
        socket.on('error', () => {})
        socket.on('close', () => resolve(text.includes('hello')))
      }),
    async see({ admin, edge }) {
      const { routes } = (await admin('GET', `/edges/https/${edge}`)).body as { routes: Route[] }
      await Promise.all(
        edgeIps.flatMap((ip) => [reach.tcp(ip), ...routes.map((route) => reach.route(pathAt(route), ip))]),
      )
    },
  }
  return { upstream: `127.0.0.1:${(server.address() as { port: number }).port}`, reach }
}

/** An installation with one edge node, and previews of this many random changes of what it serves. */
export async function previewAtEdge(scope: Scope, changes: number) {
  const installation = await startInstallation(scope, behindProxy)
  const node = await installation.startEdge()
  const { admin } = installation
  const host = freshHost()
  const edge = await newHttpsEdge(admin, { hostports: [`${host}:443`] })
  const port = node.tcpPorts.first
  const { upstream, reach } = await startUpstream(scope, node, { host, port })
  const { id: backend } = await newBackend(admin, { address: upstream })
  const tcpHostport = `tcp.example:${port}`
  return previewAtRandom({ plane: installation, admin, reach, edge: edge.id, tcpHostport, backend }, changes)
}
