import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { type Answer, checkAgainstDocument, noteToken } from './client.ts'

type Running = { processes: readonly { port: number }[] }
export type HeaderLine = readonly [name: string, value: string]
export type RawRequest = {
  method: string
  path: string
  /** Sent exactly as given, repeated ones included; Host is added when none is given. */
  headers: readonly HeaderLine[]
  body?: string | Buffer
}

/** The headers that a well-behaved client sends, as lines that a test can leave out, repeat or change. */
export const headersOf = (token: string): HeaderLine[] => [
  ['Service-Version', '2'],
  ['Authorization', `Bearer ${token}`],
]
export const json: HeaderLine = ['Content-Type', 'application/json']

/** Adds a Content-Length for the body unless the request declares its own framing. */
export function requestBytes({ method, path, headers, body }: RawRequest): Buffer {
  const has = (wanted: string) => headers.some(([name]) => name.toLowerCase() === wanted)
  const lines = [
    `${method} ${path} HTTP/1.1`,
    ...(has('host') ? [] : ['Host: gatehouse']),
    ...headers.map(([name, value]) => `${name}: ${value}`),
    ...(body === undefined || has('content-length') || has('transfer-encoding')
      ? []
      : [`Content-Length: ${Buffer.byteLength(body)}`]),
  ]
  return Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'), Buffer.from(body ?? '')])
}

/** Statuses of unreadable requests: no operation describes them, because none was reached. */
const beforeAnyOperation = new Set([408, 417, 431])

/** A raw connection, for what fetch would normalize, merge or refuse to send. */
export class RawConnection {
  readonly socket: Socket
  private received = Buffer.alloc(0)
  private ended = false

  private constructor(socket: Socket) {
    this.socket = socket
    socket.on('data', (chunk) => {
      this.received = Buffer.concat([this.received, chunk])
      socket.emit('progress')
    })
    // A reset ends the connection like a close; what arrived before it counts.
    socket.on('error', () => {})
    socket.on('close', () => {
      this.ended = true
      socket.emit('progress')
    })
    socket.on('end', () => socket.end())
  }

  static async open({ processes: [first] }: Running): Promise<RawConnection> {
    const socket = connect({ port: first?.port ?? 0, host: '127.0.0.1', noDelay: true })
    await once(socket, 'connect')
    return new RawConnection(socket)
  }

  write(bytes: string | Buffer): void {
    if (this.socket.writable) this.socket.write(bytes)
  }

  /** The next answer, or undefined when the connection ended without one. */
  async answer(): Promise<Answer | undefined> {
    for (;;) {
      const answer = this.take()
      if (answer) return answer
      if (this.ended) return undefined
      await once(this.socket, 'progress')
    }
  }

  async exchange(request: RawRequest): Promise<Answer> {
    this.write(requestBytes(request))
    const answer = await this.answer()
    if (!answer) throw new Error(`the connection ended without an answer to ${request.method} ${request.path}`)
    if (!beforeAnyOperation.has(answer.status)) checkAgainstDocument(request.method, request.path, answer)
    return answer
  }

  async closed(): Promise<void> {
    while (!this.ended) await once(this.socket, 'progress')
  }

  close(): void {
    this.socket.destroy()
  }

  private take(): Answer | undefined {
    const end = this.received.indexOf('\r\n\r\n')
    if (end < 0) return undefined
    const [first = '', ...lines] = this.received.subarray(0, end).toString('latin1').split('\r\n')
    const headers = new Headers(
      lines.map((line): [string, string] => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1)]),
    )
    const length = end + 4 + Number(headers.get('content-length') ?? 0)
    if (this.received.length < length) return undefined
    const text = this.received.subarray(end + 4, length).toString()
    this.received = this.received.subarray(length)
    const isJson = headers.get('content-type')?.startsWith('application/json')
    const body = isJson && text ? JSON.parse(text) : undefined
    if (typeof body?.token === 'string') noteToken(body.token)
    return { status: Number(first.split(' ')[1]), headers, text, body }
  }
}

/** One request on its own connection. */
export async function rawExchange(plane: Running, request: RawRequest): Promise<Answer> {
  const connection = await RawConnection.open(plane)
  try {
    return await connection.exchange(request)
  } finally {
    connection.close()
  }
}
