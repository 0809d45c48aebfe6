import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import type { DbPool } from '../db/pool.ts'
import type { HeavyOperations } from './heavy.ts'

export type Metrics = {
  readonly text: () => Promise<string>
  readonly contentType: string
  readonly observeRestriction: (outcome: 'refused' | 'warned') => void
  readonly countLostHits: (hits: number) => void
  readonly countLostSightings: (usageBuffer: number) => void
  readonly countDroppedFromReports: (parts: number) => void
  readonly countExpiredKey: () => void
  readonly showRefusedHostports: (count: number) => void
  readonly publisher: {
    published: (records: number) => void
    behind: (generations: number) => void
    active: (isActive: boolean) => void
  }
  /** From then on the nodes are counted whenever the metrics are asked for. */
  readonly watchEdgeNodes: (nodes: () => { live: boolean; applied: number; refusals: unknown[] }[]) => void
  readonly observeRequest: (operation: string, status: number, seconds: number) => void
}

/** Labels have few values: operations and statuses, never accounts, addresses or ids. */
export function createMetrics(db: DbPool, heavy: HeavyOperations, version: string): Metrics {
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
  new Gauge({
    name: 'gatehouse_heavy_operations',
    help: 'Rule sets and reports that this process works on, and those that wait or are still arriving.',
    labelNames: ['kind', 'state'],
    registers,
    collect() {
      for (const [kind, counts] of Object.entries(heavy.counts()))
        for (const [state, count] of Object.entries(counts)) this.set({ kind, state }, count)
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
  const expired = new Counter({
    name: 'gatehouse_expired_keys_refused_total',
    help: 'Requests refused because the time of their API key or of its replaced token is over.',
    registers,
  })
  const lostSightings = new Counter({
    name: 'gatehouse_sightings_lost_total',
    help: 'Uses of keys that came too fast to be kept with their address.',
    registers,
  })
  const droppedFromReports = new Counter({
    name: 'gatehouse_edge_report_parts_dropped_total',
    help: 'Counts, refusals and whole reports of edge nodes that were out of bounds, and were dropped.',
    registers,
  })
  const refusedHostports = new Gauge({
    name: 'gatehouse_refused_hostports',
    help: 'Hostports that were taken out of force because another account had an overlapping one before. Counted every hour.',
    registers,
  })
  const published = new Counter({
    name: 'gatehouse_publisher_records_total',
    help: 'Records sent to edge nodes by this process.',
    registers,
  })
  const behind = new Gauge({
    name: 'gatehouse_publisher_generations_behind',
    help: 'Generations that were committed and not sent yet when the publisher last looked.',
    registers,
  })
  const active = new Gauge({
    name: 'gatehouse_publisher_active',
    help: '1 on the one process that sends changes to edge nodes.',
    registers,
  })
  let edgeNodes: Parameters<Metrics['watchEdgeNodes']>[0] = () => []
  new Gauge({
    name: 'gatehouse_edge_nodes',
    help: 'Edge nodes, by whether they have reported within the last seconds.',
    labelNames: ['live'],
    registers,
    collect() {
      const nodes = edgeNodes()
      for (const live of [true, false])
        this.set({ live: String(live) }, nodes.filter((node) => node.live === live).length)
    },
  })
  new Gauge({
    name: 'gatehouse_edge_applied_generation_min',
    help: 'The lowest generation that a live edge node has applied. Absent without live nodes.',
    // A gauge without labels would be 0 where there is nothing to tell.
    labelNames: ['live'],
    registers,
    collect() {
      const applied = edgeNodes()
        .filter(({ live }) => live)
        .map((node) => node.applied)
      this.reset()
      if (applied.length) this.set({}, Math.min(...applied))
    },
  })
  new Gauge({
    name: 'gatehouse_edge_refusals',
    help: 'Records that live edge nodes have lately refused to apply.',
    registers,
    collect() {
      this.set(
        edgeNodes()
          .filter(({ live }) => live)
          .reduce((sum, { refusals }) => sum + refusals.length, 0),
      )
    },
  })
  return {
    publisher: {
      published: (records) => published.inc(records),
      behind: (generations) => behind.set(generations),
      active: (isActive) => active.set(isActive ? 1 : 0),
    },
    watchEdgeNodes(nodes) {
      edgeNodes = nodes
    },
    observeRestriction: (outcome) => restricted.inc({ outcome }),
    countLostHits: (hits) => lost.inc(hits),
    countLostSightings: (usageBuffer) => lostSightings.inc(usageBuffer),
    countDroppedFromReports: (parts) => droppedFromReports.inc(parts),
    countExpiredKey: () => expired.inc(),
    showRefusedHostports: (count) => refusedHostports.set(count),
    text: () => registry.metrics(),
    contentType: registry.contentType,
    observeRequest(operation, status, seconds) {
      requests.inc({ operation, status })
      duration.observe({ operation }, seconds)
    },
  }
}
