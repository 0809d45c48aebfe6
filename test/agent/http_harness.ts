import { createServer, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { RouteModuleSettings } from '../../src/distribution/route_modules.ts'
import type { Issued } from '../harness/client_pki.ts'
import type { Scope } from '../harness/control_plane.ts'
import { type Edge, id } from './proxy_harness.ts'

export type Answer = { status: number; head: string; body: string }

/** Bytes as they are, over TLS, and the first answer; status 0 when the connection ended without one. */
export async function exchange(
  { httpsPort }: Pick<Edge, 'httpsPort'>,
  bytes: string,
  {
    from,
    to = '127.0.0.1',
    servername = 'app.example.com',
    client,
  }: Pick<Get, 'from' | 'to' | 'servername' | 'client'> = {},
): Promise<Answer> {
  const socket = connectTls({
    host: to,
    port: httpsPort,
    servername,
    rejectUnauthorized: false,
    ALPNProtocols: ['http/1.1'],
    ...{ localAddress: from },
    ...(client && { cert: client.pem + client.chain, key: client.key }),
  })
  let text = ''
  const answer = () => {
    const end = text.indexOf('\r\n\r\n')
    if (end < 0) return undefined
    const head = text.slice(0, end)
    const length = Number(/^content-length: (\d+)$/im.exec(head)?.[1] ?? 0)
    const body = text.slice(end + 4, end + 4 + length)
    return body.length < length ? undefined : { status: Number(head.split(' ')[1]), head, body }
  }
  await new Promise<void>((resolve) => {
    socket.on('data', (data) => {
      text += data.toString('latin1')
      if (answer()) resolve()
    })
    socket.on('error', () => resolve())
    socket.on('close', () => resolve())
    socket.on('secureConnect', () => socket.write(Buffer.from(bytes, 'latin1')))
  })
  socket.destroy()
  return answer() ?? { status: 0, head: text, body: '' }
}

export type Get = {
  path?: string
  host?: string
  headers?: string[]
  method?: string
  from?: string
  to?: string
  /** The name in the TLS handshake, when it is not the host. */
  servername?: string
  /** Whose certificate it shows where it is asked for one. */
  client?: Issued
}

export function get(edge: Pick<Edge, 'httpsPort'>, options: Get = {}): Promise<Answer> {
  const { path = '/', host = 'app.example.com', headers = [], method = 'GET', ...visit } = options
  const lines = [`${method} ${path} HTTP/1.1`, `Host: ${host}`, ...headers]
  const servername = host.toLowerCase().replace(/\.?(:\d+)?$/, '')
  return exchange(edge, `${lines.join('\r\n')}\r\n\r\n`, { servername, ...visit })
}

export type HttpUpstream = {
  port: number
  accepts: number
  /** The raw head of each request, in the order of arrival. */
  heads: string[]
  /** Every byte of all connections. */
  received: string
  /** Name and value of each header line of the last request, as they arrived. */
  lastHeaders: () => [name: string, value: string][]
}

/** Answers each request with `name`, on connections that stay open. */
export async function startHttpUpstream(t: Scope, name = 'upstream'): Promise<HttpUpstream> {
  const sockets = new Set<Socket>()
  const upstream: HttpUpstream = {
    port: 0,
    accepts: 0,
    heads: [],
    received: '',
    lastHeaders: () =>
      (upstream.heads.at(-1) ?? '')
        .split('\r\n')
        .slice(1)
        .map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1).trimStart()]),
  }
  const server = createServer((socket) => {
    upstream.accepts++
    sockets.add(socket)
    let text = ''
    socket.on('error', () => {})
    socket.on('close', () => sockets.delete(socket))
    socket.on('data', (bytes) => {
      upstream.received += bytes.toString('latin1')
      text += bytes.toString('latin1')
      for (let end = text.indexOf('\r\n\r\n'); end >= 0; end = text.indexOf('\r\n\r\n')) {
        const head = text.slice(0, end)
        text = text.slice(end + 4)
        if (!/^[A-Z]+ \S+ HTTP\/1\.1/.test(head)) continue
        upstream.heads.push(head)
        socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${name.length}\r\n\r\n${name}`)
      }
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  upstream.port = (server.address() as { port: number }).port
  t.after(async () => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return upstream
}

export type RouteOptions = Partial<RouteModuleSettings> & {
  match?: string
  match_type?: 'exact_path' | 'path_prefix'
  policies?: string[] | null
  policies_mode?: 'warn'
  headers?: { add: [string, string][]; remove: string[] } | null
  response_headers?: { add: [string, string][]; remove: string[] }
  backend?: string | null
  account?: string
  encoded_slashes?: 'allow'
  path_variants?: 'ignore'
  websocket?: false
  timeouts?: { connect_seconds?: number; response_seconds?: number; idle_seconds?: number }
}

export async function putHttpsEdge(edge: Edge, hostports: string[] = ['app.example.com:443']): Promise<string> {
  const https = id('edghts')
  await edge.put({ [`https.${https}`]: { hostports } })
  return https
}

/** Resolves to the route's id. */
export async function putRoute(
  edge: Edge,
  https: string,
  upstream: { port: number },
  options: RouteOptions = {},
): Promise<string> {
  const [route, backend] = [id('edghtsrt'), id('bkdst')]
  const record = {
    account: id('ac'),
    edge: https,
    match_type: 'path_prefix',
    match: '/',
    backend,
    policies: null,
    headers: null,
    ...options,
  }
  await edge.put({
    [`backend.${backend}`]: { address: '127.0.0.1', port: upstream.port, tls: false, host: 'upstream.test' },
    [`route.${route}`]: record,
  })
  return route
}
