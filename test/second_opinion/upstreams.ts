import { once } from 'node:events'
import { createServer as createHttp2Server } from 'node:http2'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { freePorts } from '../../dev/ports.ts'
import type { Scope } from '../harness/control_plane.ts'
import type { Header } from './specification.ts'

export type Seen = { port: number; method: string; target: string; headers: Header[] }
export type SeenConnection = { port: number; client?: string }
export type Upstreams = {
  http1: number[]
  http2: number
  tcp: number[]
  /** Expects the PROXY protocol. */
  proxied: number
  dead: number
  /** What arrived of each request or TCP connection, by its number. */
  seen: Map<string, Seen[]>
  seenConnections: Map<string, SeenConnection[]>
}
/** By which requests find each other again: the upstream gets it as it was sent. */
export const numberHeader = 'x-number'

export async function startUpstreams(scope: Scope): Promise<Upstreams> {
  const [seen, seenConnections] = [new Map<string, Seen[]>(), new Map<string, SeenConnection[]>()]
  const note = (request: Seen) => {
    const number = request.headers.find(([name]) => name === numberHeader)?.[1] ?? 'none'
    seen.set(number, [...(seen.get(number) ?? []), request])
  }
  const http1 = await Promise.all(Array.from({ length: 5 }, () => listen(scope, serveHttp1(note))))
  const tcp = await Promise.all(Array.from({ length: 3 }, () => listen(scope, serveTcp(seenConnections, false))))
  const [dead = 0] = await freePorts(1)
  return {
    http1,
    http2: await listen(scope, serveHttp2(note)),
    tcp,
    proxied: await listen(scope, serveTcp(seenConnections, true)),
    dead,
    seen,
    seenConnections,
  }
}

async function listen(scope: Scope, server: Server): Promise<number> {
  const open = new Set<Socket>()
  server.on('connection', (socket) => {
    open.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => open.delete(socket))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  scope.after(async () => {
    for (const socket of open) socket.destroy()
    server.close()
  })
  return (server.address() as AddressInfo).port
}

const answer = 'HTTP/1.1 200 OK\r\nX-From: upstream\r\nContent-Length: '
/** For the key of RFC 6455's example, which clients send. */
const webSocketAnswer = `HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r
Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n`

/** Not Node's own HTTP server, which would hide how headers arrived. */
const serveHttp1 = (note: (request: Seen) => void) =>
  createServer((socket) => {
    let text = ''
    socket.on('error', () => {})
    socket.on('data', (bytes) => {
      text += bytes.toString('latin1')
      for (let end = text.indexOf('\r\n\r\n'); end >= 0; end = text.indexOf('\r\n\r\n')) {
        const [line = '', ...lines] = text.slice(0, end).split('\r\n')
        const headers = lines.map((each): Header => {
          const colon = each.indexOf(':')
          return [each.slice(0, colon), each.slice(colon + 1).trim()]
        })
        const length = Number(headers.find(([name]) => name === 'content-length')?.[1] ?? 0)
        if (text.length < end + 4 + length) return
        text = text.slice(end + 4 + length)
        const [method = '', target = ''] = line.split(' ')
        note({ port: socket.localPort ?? 0, method, target, headers })
        if (headers.some(([name]) => name === 'upgrade')) socket.write(webSocketAnswer)
        else if (method === 'HEAD') socket.write(`${answer}0\r\n\r\n`)
        else socket.write(`${answer}2\r\n\r\nok`)
      }
    })
  })

const serveHttp2 = (note: (request: Seen) => void) =>
  createHttp2Server((request, response) => {
    const { ':method': method = '', ':path': target = '', ':authority': authority, ...others } = request.headers
    const headers = Object.entries(others)
      .filter(([name]) => !name.startsWith(':'))
      .flatMap(([name, value]) => [value ?? ''].flat().map((each): Header => [name, each]))
    const port = request.socket.localPort ?? 0
    request.resume()
    request.on('end', () => {
      note({ port, method, target, headers: authority ? [...headers, ['host', authority]] : headers })
      response.writeHead(200, { 'x-from': 'upstream', 'content-length': method === 'HEAD' ? 0 : 2 })
      response.end(method === 'HEAD' ? '' : 'ok')
    })
    response.on('error', () => {})
  })

const signature = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1')

/** The client sends its number and a line end, and gets it back. */
const serveTcp = (seen: Upstreams['seenConnections'], isProxied: boolean) =>
  createServer((socket) => {
    let bytes = Buffer.alloc(0)
    socket.on('data', (chunk) => {
      bytes = Buffer.concat([bytes, chunk])
      let [rest, client] = [bytes, undefined as string | undefined]
      if (isProxied) {
        if (bytes.length < 16 || bytes.length < 16 + bytes.readUInt16BE(14)) return
        client = bytes.subarray(0, 12).equals(signature) ? clientOf(bytes) : 'no PROXY header'
        rest = bytes.subarray(16 + bytes.readUInt16BE(14))
      }
      if (!rest.includes('\n')) return
      const number = rest.toString().trim()
      const connection = { port: socket.localPort ?? 0, ...(client !== undefined && { client }) }
      seen.set(number, [...(seen.get(number) ?? []), connection])
      socket.end(`${number}\n`)
    })
  })

function clientOf(header: Buffer): string {
  const family = header.readUInt8(13) >> 4
  if (family === 1) return header.subarray(16, 20).join('.')
  const groups = Array.from({ length: 8 }, (_, index) => header.readUInt16BE(16 + 2 * index).toString(16))
  return URL.parse(`http://[${groups.join(':')}]`)?.hostname.slice(1, -1) ?? ''
}
