import { once } from 'node:events'
import { type ClientHttp2Session, type ClientHttp2Stream, connect as connectHttp2, type Settings } from 'node:http2'
import type { TestContext } from 'node:test'
import { WebSocketServer } from 'ws'
import type { Edge } from './proxy_harness.ts'

/** Sends every message back, and keeps the headers and the target of each handshake. */
export async function startEcho(t: TestContext) {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' })
  const handshakes: Record<string, unknown>[] = []
  const targets: (string | undefined)[] = []
  server.on('connection', (socket, request) => {
    handshakes.push(request.headers)
    targets.push(request.url)
    socket.on('error', () => {})
    socket.on('message', (data, isBinary) => socket.send(data, { binary: isBinary }))
  })
  await once(server, 'listening')
  t.after(() => {
    for (const client of server.clients) client.terminate()
    server.close()
  })
  return { port: (server.address() as { port: number }).port, handshakes, targets, server }
}

export async function openHttp2(
  t: TestContext,
  { httpsPort }: Edge,
  settings: Settings = {},
): Promise<ClientHttp2Session> {
  const session = connectHttp2(`https://127.0.0.1:${httpsPort}`, {
    rejectUnauthorized: false,
    servername: 'app.example.com',
    settings,
  })
  session.on('error', () => {})
  t.after(() => session.destroy())
  await once(session, 'remoteSettings')
  return session
}

export async function extendedConnect(session: ClientHttp2Session, path: string, protocol = 'websocket') {
  const stream: ClientHttp2Stream = session.request(
    {
      ':method': 'CONNECT',
      ':protocol': protocol,
      ':scheme': 'https',
      ':path': path,
      ':authority': 'app.example.com',
      'sec-websocket-version': '13',
    },
    { endStream: false },
  )
  stream.on('error', () => {})
  const answer = await new Promise<{ status: number; body: Promise<string> }>((resolve) => {
    stream.once('response', ({ ':status': status = 0 }) =>
      // HAProxy resets the stream behind an answer of its own, and what has not been read by then is lost.
      resolve({ status, body: status === 200 ? Promise.resolve('') : bodyOf(stream) }),
    )
  })
  return { stream, ...answer }
}

function bodyOf(stream: ClientHttp2Stream): Promise<string> {
  let body = ''
  stream.on('data', (bytes) => {
    body += bytes
  })
  return new Promise((resolve) => void stream.once('close', () => resolve(body)))
}
