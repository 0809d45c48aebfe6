import { type ClientHttp2Session, connect as connectHttp2, constants } from 'node:http2'
import { connect as connectTls, type TLSSocket } from 'node:tls'
import type { GeneratedRequest } from './requests.ts'

/** What a client got: the status, the headers as lines, and the body. */
export type Outcome = string

export type Client = { send: (request: GeneratedRequest) => Promise<Outcome>; close: () => void }

/** One request after another, on connections that are kept as long as the proxy lets us, one for each kind. */
export function createClient(port: number): Client {
  const sessions = new Map<string, ClientHttp2Session>()
  const sockets = new Map<string, TLSSocket>()

  function session({ from, servername }: GeneratedRequest): ClientHttp2Session {
    const name = `${from} ${servername}`
    const known = sessions.get(name)
    if (known && !known.closed && !known.destroyed) return known
    const options = { rejectUnauthorized: false, servername, localAddress: from }
    const opened = connectHttp2(`https://127.0.0.1:${port}`, options)
    opened.on('error', () => {})
    sessions.set(name, opened)
    return opened
  }

  function overHttp2(request: GeneratedRequest): Promise<Outcome> {
    const { method, host, target, headers, body } = request
    return new Promise((resolve) => {
      // Ended once only: a second end, even of nothing, is an error that loses the answer's body.
      const endStream = body === ''
      const stream = session(request).request(
        {
          ...Object.fromEntries(headers.map(([name, value]) => [name.toLowerCase(), value])),
          [constants.HTTP2_HEADER_METHOD]: method,
          [constants.HTTP2_HEADER_PATH]: target,
          [constants.HTTP2_HEADER_AUTHORITY]: host,
          [constants.HTTP2_HEADER_SCHEME]: 'https',
        },
        { endStream },
      )
      let head = ''
      let text = ''
      stream.setEncoding('latin1')
      stream.on('response', (got) => {
        head = JSON.stringify(got)
      })
      stream.on('data', (chunk) => {
        text += chunk
      })
      stream.on('error', () => {})
      stream.on('close', () => resolve(head ? `${head}\n${text}` : `reset ${stream.rstCode}`))
      if (!endStream) stream.end(Buffer.from(body, 'latin1'))
    })
  }

  function socketFor({ from, servername }: GeneratedRequest): TLSSocket {
    const name = `${from} ${servername}`
    const known = sockets.get(name)
    if (known && !known.destroyed) return known
    const options = { rejectUnauthorized: false, servername, ALPNProtocols: ['http/1.1'], ...{ localAddress: from } }
    const opened = connectTls({ host: '127.0.0.1', port, ...options })
    opened.setNoDelay(true)
    opened.on('error', () => {})
    sockets.set(name, opened)
    return opened
  }

  function overHttp1(request: GeneratedRequest): Promise<Outcome> {
    const { method, host, target, headers, body } = request
    const lines = [
      `${method} ${target} HTTP/1.1`,
      `Host: ${host}`,
      ...headers.map(([name, value]) => `${name}: ${value}`),
    ]
    const framing = body || /^(?:POST|PUT|PATCH)$/.test(method) ? [`Content-Length: ${body.length}`] : []
    const socket = socketFor(request)
    return new Promise((resolve) => {
      let text = ''
      const finish = () => {
        const length = answerLength(text, method)
        if (length === undefined && !socket.destroyed && !socket.readableEnded) return
        socket.removeAllListeners('data').removeAllListeners('close').removeAllListeners('end')
        // A connection that carried something unexpected, or is about to end, carries nothing else.
        if (length !== text.length || /^connection: close\r$/im.test(text)) socket.destroy()
        resolve(text)
      }
      socket.on('data', (bytes) => {
        text += bytes.toString('latin1')
        finish()
      })
      socket.on('end', finish)
      socket.on('close', finish)
      socket.write(Buffer.from(`${[...lines, ...framing].join('\r\n')}\r\n\r\n${body}`, 'latin1'))
    })
  }

  return {
    send: (request) => (request.version === 'HTTP/2' ? overHttp2(request) : overHttp1(request)),
    close() {
      for (const each of sessions.values()) each.destroy()
      for (const each of sockets.values()) each.destroy()
    },
  }
}

/** Length of a complete answer; undefined before that. */
function answerLength(text: string, method: string): number | undefined {
  const end = text.indexOf('\r\n\r\n') + 4
  if (end < 4) return undefined
  const status = Number(text.split(' ', 2)[1])
  if (/^transfer-encoding: chunked\r$/im.test(text.slice(0, end))) {
    const last = text.indexOf('0\r\n\r\n', end)
    return last < 0 ? undefined : last + 5
  }
  const size =
    method === 'HEAD' || status < 200 ? 0 : Number(/^content-length: (\d+)\r$/im.exec(text.slice(0, end))?.[1] ?? 0)
  return text.length < end + size ? undefined : end + size
}
