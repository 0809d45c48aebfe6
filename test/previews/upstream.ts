// Requests through a real edge node, from addresses of this machine.
import { once } from 'node:events'
import { createServer } from 'node:http'
import { request } from 'node:https'
import { connect } from 'node:net'
import type { Scope } from '../harness/control_plane.ts'
import type { EdgeProcess } from '../harness/edge.ts'
import { edgeIps, type Reach } from './random.ts'

export async function startUpstream(
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
      const { routes } = (await admin('GET', `/edges/https/${edge}`)).body as { routes: { match: string }[] }
      await Promise.all(edgeIps.flatMap((ip) => [reach.tcp(ip), ...routes.map(({ match }) => reach.route(match, ip))]))
    },
  }
  return { upstream: `127.0.0.1:${(server.address() as { port: number }).port}`, reach }
}
