import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import { buffer } from 'node:stream/consumers'
import type { Scope } from '../harness/control_plane.ts'

/** `drop before`: the service never sees the request. `drop after`: it does, and its response is lost. */
export type Fault = 'drop before' | 'drop after' | 'cut the body' | '503' | '429' | undefined
export type FailingProxy = {
  url: string
  /** What happens to the next request, which is given. */
  fault: (request: IncomingMessage) => Fault
  /** What reached the service, as `POST /ip_policies`. */
  forwarded: string[]
}

/** A bad network, or a bad proxy, in front of the real service. */
export async function startFailingProxy(scope: Scope, origin: string): Promise<FailingProxy> {
  const proxy: FailingProxy = { url: '', fault: () => undefined, forwarded: [] }
  const server = createServer(async (incoming, outgoing) => {
    const fault = proxy.fault(incoming)
    const body = await buffer(incoming)
    if (fault === 'drop before') return void incoming.socket.destroy()
    if (fault === '503' || fault === '429') return void outgoing.writeHead(Number(fault), { 'Retry-After': '0' }).end()
    proxy.forwarded.push(`${incoming.method} ${incoming.url}`)
    forward(origin, incoming, body, (answer, text) => {
      if (fault === 'drop after') return void incoming.socket.destroy()
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers)
      if (fault !== 'cut the body') return void outgoing.end(text)
      outgoing.write(text.subarray(0, text.length - 1), () => incoming.socket.destroy())
    })
  })
  proxy.url = await listening(scope, server)
  return proxy
}

function forward(
  origin: string,
  { method, url, headers }: IncomingMessage,
  body: Buffer,
  done: (answer: IncomingMessage, text: Buffer) => void,
): void {
  request(origin + url, { method, headers: { ...headers, host: new URL(origin).host } }, async (answer) =>
    done(answer, await buffer(answer)),
  ).end(body)
}

/** Answers everything in one way, and keeps what it received. */
export async function startStranger(
  scope: Scope,
  answer: (outgoing: ServerResponse) => void = (outgoing) => outgoing.end(),
) {
  const received: IncomingMessage['headers'][] = []
  const server = createServer((incoming, outgoing) => {
    received.push(incoming.headers)
    answer(outgoing)
  })
  return { url: await listening(scope, server), received }
}

async function listening(scope: Scope, server: ReturnType<typeof createServer>): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  scope.after(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })
  return `http://127.0.0.1:${(server.address() as { port: number }).port}`
}
