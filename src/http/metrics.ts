import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import type { DbPool } from '../db/pool.ts'

export type Metrics = {
  readonly text: () => Promise<string>
  readonly contentType: string
  readonly observeRestriction: (outcome: 'refused' | 'warned') => void
  readonly countLostHits: (hits: number) => void
  readonly observeRequest: (operation: string, status: number, seconds: number) => void
}

/** Labels have few values: operations and statuses, never accounts, addresses or ids. */
export function createMetrics(db: DbPool, version: string): Metrics {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  const registers = [registry]
  new Gauge({
    name: 'gatehouse_build_info',
    help: 'Always 1; the label is the version.',
    labelNames: ['version'],
    registers,
  }).set({ version }, 1)
  const requests = new Counter({
    name: 'gatehouse_http_requests_total',
    help: 'Requests answered, by operation and status.',
    labelNames: ['operation', 'status'],
    registers,
  })
  const duration = new Histogram({
    name: 'gatehouse_http_request_seconds',
    help: 'Time from the first byte of a request to the end of its response.',
    labelNames: ['operation'],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10],
    registers,
  })
  new Gauge({
    name: 'gatehouse_db_connections',
    help: 'Connections of the pool, and requests waiting for one.',
    labelNames: ['state'],
    registers,
    collect() {
      for (const [state, count] of Object.entries(db.connections())) this.set({ state }, count)
    },
  })
  const restricted = new Counter({
    name: 'gatehouse_ip_restriction_hits_total',
    help: 'API calls that an IP restriction refused, or would have refused if it were enforced.',
    labelNames: ['outcome'],
    registers,
  })
  const lost = new Counter({
    name: 'gatehouse_ip_restriction_hits_lost_total',
    help: 'Refusals and warnings that came too fast to be kept with their address.',
    registers,
  })
  return {
    observeRestriction: (outcome) => restricted.inc({ outcome }),
    countLostHits: (hits) => lost.inc(hits),
    text: () => registry.metrics(),
    contentType: registry.contentType,
    observeRequest(operation, status, seconds) {
      requests.inc({ operation, status })
      duration.observe({ operation }, seconds)
    },
  }
}
