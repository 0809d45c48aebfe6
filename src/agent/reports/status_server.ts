import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { constants, createGzip } from 'node:zlib'
import { maxOrderBytes } from '../../distribution/emergency.ts'
import { yieldToEventLoop } from '../../kernel/flow/yield_to_event_loop.ts'
import type { Taken } from '../emergencies.ts'

type Node = {
  status: () => Record<string, unknown>
  /** Why the node should get no traffic now; undefined if it may. */
  notReady: () => string | undefined
  warnings: () => string[]
  metrics: () => Promise<Record<string, number>>
  /** Further metrics, as text in slices: there may be very many. */
  more: () => Iterable<string>
  takeEmergency: (text: string) => Promise<Taken>
}

/**
 * The node's status, for its own machine: `/status` for people, `/metrics` for Prometheus, `/healthz` for the supervisor
 * that restarts the agent, `/readyz` for the load balancer. `/emergency` accepts a signed order from anyone.
 */
export async function serveStatus(
  listen: { host: string; port: number },
  { status, notReady, warnings, metrics, more, takeEmergency }: Node,
): Promise<{ close: () => void }> {
  const server = createServer(async (request, response) => {
    const answer = (type: string, body: string) => response.writeHead(200, { 'Content-Type': type }).end(body)
    switch (request.url) {
      case '/healthz':
        return answer('application/json', '{"status":"ok"}')
      case '/readyz': {
        const reason = notReady()
        const odd = warnings()
        if (reason === undefined)
          return answer(
            'application/json',
            JSON.stringify({ status: 'ready', ...(odd.length > 0 && { warnings: odd }) }),
          )
        response.writeHead(503, { 'Content-Type': 'application/json' })
        return response.end(JSON.stringify({ status: 'not ready', reason }))
      }
      case '/emergency':
        return order(request, response, takeEmergency)
      case '/status':
        return answer('application/json', JSON.stringify(status()))
      case '/metrics':
        return sendMetrics(request, response, await metrics(), more())
      default:
        return response.writeHead(404).end()
    }
  })
  server.listen(listen)
  await once(server, 'listening')
  return {
    close(): void {
      server.close()
      // A monitor that polls over one connection would keep the process from exiting.
      server.closeAllConnections()
    },
  }
}

/** The signature authenticates the order, so the transport does not matter. */
async function order(request: IncomingMessage, response: ServerResponse, take: Node['takeEmergency']): Promise<void> {
  const answer = (status: number, body: object) =>
    void response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(body))
  if (request.method !== 'POST') return answer(405, { fault: 'must be sent with POST' })
  try {
    let text = ''
    for await (const part of request.setEncoding('utf8')) {
      text += part
      if (text.length > maxOrderBytes) return answer(413, { fault: `is longer than ${maxOrderBytes} bytes` })
    }
    const taken = await take(text)
    answer(taken.fault === undefined ? 200 : 403, taken)
  } catch (error) {
    answer(503, { fault: `is not in force yet, and the node keeps trying: ${(error as Error).message}` })
  }
}

async function sendMetrics(
  request: IncomingMessage,
  response: ServerResponse,
  metrics: Record<string, number>,
  more: Iterable<string>,
): Promise<void> {
  const lines = Map.groupBy(Object.entries(metrics), ([name]) => name.replace(/\{.*/, ''))
    .entries()
    .flatMap(([name, values]) => [
      `# TYPE ${name} ${name.endsWith('_total') ? 'counter' : 'gauge'}`,
      ...values.map(([labeled, value]) => `${labeled} ${value}`),
    ])
  async function* slices() {
    yield `${[...lines].join('\n')}\n`
    for (const slice of more) {
      yield slice
      await yieldToEventLoop()
    }
  }
  const isCompressed = /\bgzip\b/.test(request.headers['accept-encoding'] ?? '')
  response.writeHead(200, {
    'Content-Type': 'text/plain; version=0.0.4',
    ...(isCompressed && { 'Content-Encoding': 'gzip' }),
  })
  // Labels repeat a lot, so the lowest compression level suffices.
  const body = Readable.from(slices())
  await (isCompressed
    ? pipeline(body, createGzip({ level: constants.Z_BEST_SPEED }), response)
    : pipeline(body, response)
  ).catch(() => {
    // The client has disconnected.
  })
}
