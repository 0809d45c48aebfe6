import { once } from 'node:events'
import { connect as connectHttp2 } from 'node:http2'
import { connect, type Socket } from 'node:net'
import { connect as connectTls, type TLSSocket } from 'node:tls'
import { certificateOf } from './certificates.ts'
import { byName } from './headers.ts'
import { body, type NumberedRequest, type TcpVisit, type Visit } from './requests.ts'
import type { Header } from './specification.ts'

export type Answer = { status: number; headers: Header[]; body: string }
/** No answer: the connection was closed, or the stream reset. */
const nothing: Answer = { status: 0, headers: [], body: '' }

async function open(visit: Pick<Visit, 'way' | 'sourceAsSent'>, host: string, port: number): Promise<Socket> {
  const { way, sourceAsSent: source } = visit
  const socket = connect({ host, port, ...(way === 'direct' && { localAddress: source }) })
  socket.on('error', () => {})
  await once(socket, 'connect')
  const destination = source.includes(':') ? '2001:db8::1' : '192.0.2.1'
  if (way === 'proxy')
    socket.write(`PROXY TCP${source.includes(':') ? 6 : 4} ${source} ${destination} 40000 ${port}\r\n`)
  return socket
}

async function openTls(visit: Visit, port: number, protocol: 'http/1.1' | 'h2'): Promise<TLSSocket> {
  const socket = await open(visit, '127.0.0.1', port)
  const options = { socket, servername: visit.serverName, rejectUnauthorized: false, ALPNProtocols: [protocol] }
  const tls = connectTls({ ...options, ...certificateOf(visit.client) })
  tls.on('error', () => {})
  await once(tls, 'secureConnect')
  return tls
}

/** The answer to each request, in their order. */
export async function makeRequests(visit: Visit, port: number): Promise<Answer[]> {
  return visit.requests[0]?.protocol === '2' ? overHttp2(visit, port) : overHttp1(visit, port)
}

/** Whether there is an answer. In TLS 1.3 clients learn after their handshake that they were refused. */
export async function isLetIn(visit: Visit, port: number): Promise<boolean> {
  const tls = await openTls(visit, port, 'http/1.1').catch(() => undefined)
  if (!tls) return false
  tls.write(`GET / HTTP/1.1\r\nHost: ${visit.serverName}\r\n\r\n`)
  const isAnswered = await new Promise<boolean>((resolve) => {
    tls.on('data', () => resolve(true)).on('close', () => resolve(false))
  })
  tls.destroy()
  return isAnswered
}

async function overHttp2(visit: Visit, port: number): Promise<Answer[]> {
  const socket = await openTls(visit, port, 'h2')
  const session = connectHttp2('https://edge', { createConnection: () => socket })
  session.on('error', () => {})
  const one = async ({ host, method, target, headers }: NumberedRequest): Promise<Answer> => {
    const sent = session.request(
      {
        ':method': method,
        ':path': target,
        ':authority': host,
        ':scheme': 'https',
        ...Object.fromEntries(headers.map(([name, value]) => [name.toLowerCase(), value])),
      },
      { endStream: !hasBody(method) },
    )
    if (hasBody(method)) sent.end(body)
    let [answer, text] = [nothing, '']
    sent.on('response', ({ ':status': status = 0, ...others }) => {
      const received = Object.entries(others).flatMap(([name, value]) =>
        [value ?? ''].flat().map((each): Header => [name, each]),
      )
      answer = { status, headers: received, body: '' }
    })
    sent.on('data', (chunk) => {
      text += chunk
    })
    sent.on('error', () => {})
    await new Promise((resolve) => sent.on('close', resolve))
    return { ...answer, body: text, headers: answer.headers.sort(byName) }
  }
  const answers = await Promise.all(visit.requests.map(one))
  session.destroy()
  return answers
}

const hasBody = (method: string) => method === 'POST' || method === 'PUT'

async function overHttp1(visit: Visit, port: number): Promise<Answer[]> {
  const answers: Answer[] = []
  let socket: TLSSocket | undefined
  for (const request of visit.requests) {
    if (!socket || socket.destroyed) socket = await openTls(visit, port, 'http/1.1')
    const { method, target, host, headers } = request
    const lines = [`${method} ${target} HTTP/1.1`, `Host: ${host}`, ...headers.map((header) => header.join(': '))]
    socket.write(`${lines.join('\r\n')}\r\n\r\n${hasBody(method) ? body : ''}`)
    const answer = await readAnswer(socket, method)
    answers.push(answer)
    const closes = answer.headers.some(([name, value]) => name === 'connection' && value === 'close')
    if (answer.status === 101 || answer.status === 0 || closes) socket.destroy()
  }
  socket?.destroy()
  return answers
}

function readAnswer(socket: TLSSocket, method: string): Promise<Answer> {
  let text = ''
  return new Promise((resolve) => {
    const finish = (answer: Answer) => {
      socket.removeAllListeners('data').removeAllListeners('close')
      resolve(answer)
    }
    socket.on('close', () => finish(nothing))
    socket.on('data', (bytes) => {
      text += bytes.toString('latin1')
      const end = text.indexOf('\r\n\r\n')
      if (end < 0) return
      const [line = '', ...lines] = text.slice(0, end).split('\r\n')
      const headers = lines.map((each): Header => {
        const colon = each.indexOf(':')
        return [each.slice(0, colon).toLowerCase(), each.slice(colon + 1).trim()]
      })
      const length = method === 'HEAD' ? 0 : Number(headers.find(([name]) => name === 'content-length')?.[1] ?? 0)
      if (text.length < end + 4 + length) return
      const status = Number(line.split(' ')[1])
      finish({ status, headers: headers.sort(byName), body: text.slice(end + 4, end + 4 + length) })
    })
  })
}

/** What a TCP client gets back: its own number, or nothing if it was not let in. */
export async function makeConnection(visit: TcpVisit): Promise<string> {
  let text = ''
  const socket = await open(visit, visit.address.replace(/[[\]]/g, ''), visit.port).catch(() => undefined)
  if (!socket) return text
  socket.write(`${visit.number}\n`)
  socket.on('data', (chunk) => {
    text += chunk
  })
  await new Promise((resolve) => socket.on('close', resolve))
  return text.trim()
}
