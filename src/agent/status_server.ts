import { once } from 'node:events'
import { createServer, type Server } from 'node:http'

/**
 * What the node says of itself, to its own machine: `/status` for people, `/metrics` for Prometheus, `/healthz` for
 * whoever restarts it, `/readyz` for whoever sends it traffic.
 */
export async function serveStatus(
  listen: { host: string; port: number },
  status: () => Record<string, unknown>,
  /** Why no traffic should be sent here now; undefined when it may. */
  notReady: () => string | undefined,
  metrics: () => Promise<Record<string, number>>,
): Promise<Server> {
  const server = createServer(async (request, response) => {
    const answer = (type: string, body: string) => response.writeHead(200, { 'Content-Type': type }).end(body)
    switch (request.url) {
      case '/healthz':
        return answer('application/json', '{"status":"ok"}')
      case '/readyz': {
        const reason = notReady()
        if (reason === undefined) return answer('application/json', '{"status":"ready"}')
        response.writeHead(503, { 'Content-Type': 'application/json' })
        return response.end(JSON.stringify({ status: 'not ready', reason }))
      }
      case '/status':
        return answer('application/json', JSON.stringify(status()))
      case '/metrics': {
        const lines = Map.groupBy(Object.entries(await metrics()), ([name]) => name.replace(/\{.*/, ''))
          .entries()
          .flatMap(([name, values]) => [
            `# TYPE ${name} ${name.endsWith('_total') ? 'counter' : 'gauge'}`,
            ...values.map(([labeled, value]) => `${labeled} ${value}`),
          ])
        return answer('text/plain; version=0.0.4', `${[...lines].join('\n')}\n`)
      }
      default:
        return response.writeHead(404).end()
    }
  })
  server.listen(listen)
  await once(server, 'listening')
  return server
}
