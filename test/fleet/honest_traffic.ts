// Clients of tenants on every node of a cell, and what they see.
import { createServer } from 'node:http'
import { request } from 'node:https'
import type { AddressInfo } from 'node:net'
import type { Scope } from '../harness/control_plane.ts'
import { pause } from '../harness/poll.ts'

export const clientAddresses = Array.from({ length: 8 }, (_, n) => `127.0.0.${n + 1}`)
const everyMs = 400
/** Longer than a route waits for its backend by default. */
const longPatienceMs = 75_000

export type Seen = { node: string; host: string; startedAt: number; endedAt: number; isGood: boolean }
type Visited = { name: string; httpsPort: number }

type Asking = { host: string; path?: string | undefined; patienceMs?: number | undefined }

function visit(
  { httpsPort }: Visited,
  { host, path = '/', patienceMs = longPatienceMs }: Asking,
  localAddress: string,
): Promise<boolean> {
  return new Promise((resolve) => {
    const asked = request(
      {
        ...{ host: '127.0.0.1', port: httpsPort, servername: host, path, headers: { host }, localAddress },
        ...{ agent: false, rejectUnauthorized: false, timeout: patienceMs },
      },
      (response) => {
        let text = ''
        response.on('data', (data) => {
          text += data
        })
        response.on('error', () => resolve(false))
        response.on('end', () => resolve(response.statusCode === 200 && text === 'web'))
      },
    )
    asked.on('timeout', () => asked.destroy())
    asked.on('error', () => resolve(false))
    asked.end()
  })
}

/** Requests in turn from each address, at a steady pace, until `stop`, which resolves when the last of them has ended. */
export function startVisitors(nodes: readonly Visited[], asking: Asking, seen: Seen[]) {
  let isOver = false
  const open = new Set<Promise<unknown>>()
  const visitors = nodes.map(async (node, index) => {
    await pause((index * everyMs) / nodes.length)
    for (let turn = 0; !isOver; turn++) {
      const startedAt = Date.now()
      const visiting = visit(node, asking, clientAddresses[turn % clientAddresses.length] ?? '').then((isGood) => {
        seen.push({ node: node.name, host: asking.host, startedAt, endedAt: Date.now(), isGood })
        open.delete(visiting)
      })
      open.add(visiting)
      await pause(everyMs)
    }
  })
  return async () => {
    isOver = true
    await Promise.all(visitors)
    await Promise.all(open)
  }
}

const portOf = (server: { address: () => unknown }): number => (server.address() as AddressInfo).port

/** An application as it should be, and others that are not. */
export async function startApplications(scope: Scope) {
  const listen = async (answer: Parameters<typeof createServer>[1]): Promise<number> => {
    const server = createServer(answer)
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    scope.after(async () => {
      server.closeAllConnections()
      server.close()
    })
    return portOf(server)
  }
  const slowMs = 1_500
  let requests = 0
  return {
    sound: await listen(({ headers, url }, response) => {
      const status = headers['x-break'] ? 500 : headers.host?.endsWith('.example') ? 200 : 502
      const send = () => response.writeHead(status).end('web')
      if (url === '/slow') void pause(slowMs).then(send)
      else send()
    }),
    unknowing: await listen((_, response) => response.writeHead(404).end('no such page')),
    failing: await listen((_, response) => response.writeHead(500).end('failed')),
    halfFailing: await listen((_, response) =>
      requests++ % 2 === 0 ? response.writeHead(503).end('failed') : response.end('web'),
    ),
    hanging: await listen(() => {}),
  }
}
export type Applications = Awaited<ReturnType<typeof startApplications>>
