import { once } from 'node:events'
import { mkdir, mkdtemp } from 'node:fs/promises'
import { createServer } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { makeCertificate } from '../../dev/edge.ts'
import type { Account, Scope } from './control_plane.ts'
import { type EdgeProcess, type Installation, startInstallation } from './edge.ts'
import { newBackend } from './fixtures.ts'

/** An account with an upstream that answers every request with its name, and a backend for it. */
export type Tenant = { as: Account; name: string; upstreamPort: number; backendId: string }
export type Tenants = { installation: Installation; edge: EdgeProcess; victim: Tenant; attacker: Tenant }

/** Two accounts and one edge node: what the first has, and what the second does to it. `names`: further certificates. */
export async function startHostileTenants(
  scope: Scope,
  { env = {}, names = [] }: { env?: Record<string, string>; names?: string[] } = {},
): Promise<Tenants> {
  const installation = await startInstallation(scope)
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-edge-'))
  await mkdir(join(folder, 'certificates'))
  for (const [index, name] of names.entries()) makeCertificate(join(folder, 'certificates', `${index}.pem`), name)
  const edge = await installation.startEdge({ env, folder })
  const victim = await newTenant(scope, installation.admin, 'victim')
  const attacker = await newTenant(scope, await installation.newAccount(), 'attacker')
  return { installation, edge, victim, attacker }
}

async function newTenant(scope: Scope, as: Account, name: string): Promise<Tenant> {
  const upstream = createServer((_, response) => response.end(name)).listen(0, '127.0.0.1')
  await once(upstream, 'listening')
  scope.after(async () => {
    upstream.closeAllConnections()
    upstream.close()
  })
  const upstreamPort = (upstream.address() as { port: number }).port
  const backend = await newBackend(as, { address: `127.0.0.1:${upstreamPort}` })
  return { as, name, upstreamPort, backendId: backend.id }
}

/** An HTTPS edge with one route for everything; resolves to the answer of the last call, waited for until it is in force. */
export async function newHttpsSite({ as, backendId }: Tenant, hostports: string[]) {
  const edge = await as('POST', '/edges/https', { hostports })
  if (edge.status !== 201) return edge
  const route = { match_type: 'path_prefix', match: '/', backend: { backend_id: backendId } }
  await as('POST', `${edge.body.uri}/routes?wait=applied`, route)
  return edge
}

export const newTcpSite = ({ as, backendId }: Tenant, hostports: string[]) =>
  as('POST', '/edges/tcp?wait=applied', { hostports, backend: { backend_id: backendId } })

/** Whose upstream a TCP port leads to; undefined when the connection ends without an answer. */
export const reachTcp = (port: number, localAddress = '127.0.0.1'): Promise<string | undefined> =>
  new Promise((resolve) => {
    let text = ''
    const socket = connect({ port, host: '127.0.0.1', localAddress })
    socket.on('connect', () => socket.write('GET / HTTP/1.0\r\n\r\n'))
    socket.on('data', (chunk) => {
      text += chunk
    })
    socket.on('error', () => {})
    socket.on('close', () => resolve(text ? text.slice(text.indexOf('\r\n\r\n') + 4) : undefined))
  })

/** The status and body of a request to a host name, sent to the node. The certificate is not what is tested. */
export const reachHttps = (
  { httpsPort }: Pick<EdgeProcess, 'httpsPort'>,
  host: string,
  path = '/',
): Promise<{ status: number; body: string }> =>
  new Promise((resolve, reject) => {
    const options = { host: '127.0.0.1', port: httpsPort, path, servername: host, headers: { host }, agent: false }
    httpsRequest({ ...options, rejectUnauthorized: false }, async (response) => {
      let body = ''
      for await (const chunk of response) body += chunk
      resolve({ status: response.statusCode ?? 0, body })
    })
      .on('error', reject)
      .end()
  })
