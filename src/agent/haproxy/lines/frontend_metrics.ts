import { ask } from '../process/runtime.ts'
import type { ProxySettings } from '../settings.ts'
import { statRows } from './stats.ts'

const statuses = ['1xx', '2xx', '3xx', '4xx', '5xx', 'other'] as const

/**
 * HAProxy's own counts for all routes and edges together: exact even if request lines are lost. They cover the current
 * worker, like usageMetrics, and are empty while HAProxy is down.
 */
export async function frontendMetrics({ runtimeSocket }: Pick<ProxySettings, 'runtimeSocket'>) {
  // Frontends only, so that the cost does not grow with the number of backends.
  const text = await ask(runtimeSocket, 'show stat -1 1 -1').catch(() => undefined)
  return text === undefined ? {} : readFrontends(text)
}

export function readFrontends(text: string): Record<string, number> {
  const metrics: Record<string, number> = {}
  for (const of of statRows(text)) {
    const frontend = of('pxname')
    metrics[`gatehouse_edge_frontend_connections_total{frontend="${frontend}"}`] = Number(of('conn_tot'))
    metrics[`gatehouse_edge_frontend_bytes_total{frontend="${frontend}",direction="in"}`] = Number(of('bin'))
    metrics[`gatehouse_edge_frontend_bytes_total{frontend="${frontend}",direction="out"}`] = Number(of('bout'))
    if (of('mode') !== 'http') continue
    for (const status of statuses)
      metrics[`gatehouse_edge_frontend_requests_total{frontend="${frontend}",status="${status}"}`] = Number(
        of(`hrsp_${status}`),
      )
  }
  return metrics
}
