// The servers of the demonstration's shop: most respond well, some slowly or not at all.
import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from '../ports.ts'

/** Resolves to the servers' addresses, and to a function that stops them. */
export async function startUpstreams() {
  const servers = [
    answering(() => ({ afterMs: 3 + Math.random() * 12 })),
    answering(() => ({ afterMs: 4 + Math.random() * 18 })),
    answering(() => ({ afterMs: 20 + Math.random() * 60, status: Math.random() < 0.04 ? 500 : 200 })),
    answering(() => ({ afterMs: Math.random() < 0.1 ? 900 : 80 })),
    createTcpServer((socket) => socket.on('error', () => {}).end('ready\n')),
  ]
  for (const server of servers) server.listen(0, '127.0.0.1')
  await Promise.all(servers.map((server) => server.listening || once(server, 'listening')))
  const [first, second, api, search, orders] = servers.map(
    (server) => `127.0.0.1:${(server.address() as AddressInfo).port}`,
  ) as [string, string, string, string, string]
  return {
    addresses: { first, second, api, search, orders, gone: `127.0.0.1:${await freePort()}` },
    stop: () => {
      for (const server of servers) server.close()
    },
  }
}
export type Upstreams = Awaited<ReturnType<typeof startUpstreams>>['addresses']

const answering = (how: () => { afterMs: number; status?: number }) => {
  const answer: RequestListener = async ({ method, url }, response) => {
    const { afterMs, status = 200 } = url === '/healthz' ? { afterMs: 0 } : how()
    await sleep(afterMs)
    response.writeHead(status, { 'content-type': 'text/plain' }).end(`${method} ${url}: ${status}\n`)
  }
  return createServer(answer)
}
