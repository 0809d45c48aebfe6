import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import type { DbPool } from '../../db/pool.ts'
import type { EventStreams } from '../event_stream.ts'
import type { HeavyOperations } from '../limits/heavy.ts'
import { type AcmeMetrics, acmeMetrics } from './acme.ts'
import { type AlertMetrics, alertMetrics } from './alerts.ts'
import { type BackupMetrics, backupMetrics } from './backup.ts'
import { type ChangeSetMetrics, changeSetMetrics } from './change_sets.ts'
import { type DomainMetrics, domainMetrics } from './domains.ts'
import { type EdgeMetrics, edgeMetrics } from './edges.ts'
import { type QuotaMetrics, quotaMetrics } from './quotas.ts'
import { type ReadinessMetrics, readinessMetrics } from './readiness.ts'
import { type RolloutMetrics, rolloutMetrics } from './rollouts.ts'

/** `dropped`: over quota. `unknown`: no such edge in the account. `refused`: invalid values. */
type EdgeRequestFate = 'kept' | 'dropped' | 'unknown' | 'refused'

type OwnMetrics = {
  readonly text: () => Promise<string>
  readonly contentType: string
  readonly observeRestriction: (outcome: 'refused' | 'warned') => void
  readonly countLostHits: (hits: number) => void
  readonly countLostSightings: (usageBuffer: number) => void
  readonly countDroppedFromReports: (parts: number) => void
  /** Counts requests that edge nodes reported for storage. */
  readonly countEdgeRequests: (counts: Record<EdgeRequestFate, number>) => void
  readonly countExpiredKey: () => void
  readonly countRateLimited: (policy: string) => void
  /** `outcome`: `succeeded`, or the reason of the failure. */
  readonly countSignIn: (provider: string, outcome: string) => void
  readonly showRefusedHostports: (count: number) => void
  /** By type of traffic. */
  readonly showNewlyRefused: (byType: Readonly<Record<string, number>>) => void
  readonly webhooks: {
    attempted: (outcome: 'delivered' | 'failed' | 'dead') => void
    queue: (figures: { pending: number; dead: number; oldestSeconds: number }) => void
  }
  /** Number of certificates by remaining lifetime, and the seconds until the first expires. */
  readonly showCertificates: (byExpiry: Readonly<Record<string, number>>, seconds: number | null) => void
  /** One publisher for each cell. */
  readonly publisher: (cell: string) => {
    published: (records: number) => void
    behind: (generations: number) => void
    /** The generation that nodes should have applied by now. */
    sent: (generation: number) => void
    active: (isActive: boolean) => void
    /** Accounts and policies that the last reconciliation of bucket and database left unchanged. */
    heldBack: (count: number) => void
    /** Call it when the cell was deleted. */
    forget: () => void
  }
  readonly observeRequest: (operation: string, status: number, seconds: number) => void
}

export type Metrics = OwnMetrics &
  DomainMetrics &
  AcmeMetrics &
  AlertMetrics &
  QuotaMetrics &
  EdgeMetrics &
  BackupMetrics &
  ChangeSetMetrics &
  ReadinessMetrics &
  RolloutMetrics

/** Keeps label cardinality low: operations and statuses, never accounts, addresses or ids. */
export function createMetrics(version: string, busy: Busy): Metrics {
  const registry = new Registry()
  const registers = [registry]
  // The default samples a hundred times a second, which made up half the load of an idle process.
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: 100 })
  new Gauge({
    name: 'gatehouse_build_info',
    help: 'Always 1. The label is the version.',
    labelNames: ['version'],
    registers,
  }).set({ version }, 1)
  showProcess(registers, busy)
  const progress: Progress = new Map()
  return {
    ...requestMetrics(registers),
    ...evidenceMetrics(registers),
    webhooks: webhookMetrics(registers),
    ...alertMetrics(registers),
    publisher: publisherMetrics(registers, progress),
    ...edgeMetrics(registers, progress),
    ...domainMetrics(registers),
    ...acmeMetrics(registers),
    ...quotaMetrics(registers),
    ...certificateMetrics(registers),
    ...backupMetrics(registers),
    ...changeSetMetrics(registers),
    ...readinessMetrics(registers),
    ...rolloutMetrics(registers),
    text: () => registry.metrics(),
    contentType: registry.contentType,
  }
}

type Registers = Registry[]

/** Read on every scrape. */
type Busy = { db: DbPool; heavy: HeavyOperations; streams: EventStreams; lostLogLines: () => number }

function showProcess(registers: Registers, { db, heavy, streams, lostLogLines }: Busy): void {
  new Counter({
    name: 'gatehouse_log_lines_lost_total',
    help: 'Lines of the log of this process that were not read in time.',
    registers,
    collect() {
      this.reset()
      this.inc(lostLogLines())
    },
  })
  new Gauge({
    name: 'gatehouse_request_streams',
    help: 'Streams of live requests that are open in this process.',
    registers,
    collect() {
      this.set(streams.count())
    },
  })
  new Gauge({
    name: 'gatehouse_db_connections',
    help: 'Database connections in the pool, and requests waiting for one.',
    labelNames: ['state'],
    registers,
    collect() {
      for (const [state, count] of Object.entries(db.connections())) this.set({ state }, count)
    },
  })
  new Gauge({
    name: 'gatehouse_db_shared_statements',
    help: 'Look-ups in flight on the shared database connections.',
    registers,
    collect() {
      this.set(db.sharedStatements())
    },
  })
  new Gauge({
    name: 'gatehouse_heavy_operations',
    help: 'Rule sets and reports that this process is handling, that are queued, or that are still arriving.',
    labelNames: ['kind', 'state'],
    registers,
    collect() {
      for (const [kind, counts] of Object.entries(heavy.counts()))
        for (const [state, count] of Object.entries(counts)) this.set({ kind, state }, count)
    },
  })
}

function requestMetrics(
  registers: Registers,
): Pick<Metrics, 'observeRequest' | 'countExpiredKey' | 'countRateLimited' | 'countSignIn'> {
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
  const expired = new Counter({
    name: 'gatehouse_expired_keys_refused_total',
    help: 'Requests refused because the API key or its replaced token has expired.',
    registers,
  })
  const limited = new Counter({
    name: 'gatehouse_rate_limited_total',
    help: 'Requests refused with 429 by a rate limit: of a key, of wrong tokens, or of wrong sign-ins.',
    labelNames: ['policy'],
    registers,
  })
  const signIns = new Counter({
    name: 'gatehouse_sign_ins_total',
    help: 'Sign-ins with a provider, by provider and outcome: succeeded, or why not.',
    labelNames: ['provider', 'outcome'],
    registers,
  })
  return {
    countSignIn: (provider, outcome) => signIns.inc({ provider, outcome }),
    countExpiredKey: () => expired.inc(),
    countRateLimited: (policy) => limited.inc({ policy }),
    observeRequest(operation, status, seconds) {
      requests.inc({ operation, status })
      duration.observe({ operation }, seconds)
    },
  }
}

function certificateMetrics(registers: Registers): Pick<Metrics, 'showCertificates'> {
  const certificates = new Gauge({
    name: 'gatehouse_certificates',
    help: 'Certificates by the time until they expire: expired, day, week, month or later. Updated hourly.',
    labelNames: ['expires'],
    registers,
  })
  let first: number | null = null
  new Gauge({
    name: 'gatehouse_certificate_expiry_seconds',
    help: 'Time until the first certificate expires. Updated hourly.',
    registers,
    collect() {
      if (first === null) this.reset()
      else this.set(first)
    },
  })
  return {
    showCertificates(byExpiry, seconds) {
      for (const [expires, count] of Object.entries(byExpiry)) certificates.set({ expires }, count)
      first = seconds
    },
  }
}

/** Counts decisions of restrictions, and hits that could not be recorded. */
function evidenceMetrics(
  registers: Registers,
): Pick<
  Metrics,
  | 'observeRestriction'
  | 'countLostHits'
  | 'countLostSightings'
  | 'countDroppedFromReports'
  | 'countEdgeRequests'
  | 'showRefusedHostports'
  | 'showNewlyRefused'
> {
  const restricted = new Counter({
    name: 'gatehouse_ip_restriction_hits_total',
    help: 'API calls that an IP restriction refused, or would have refused if it were enforced.',
    labelNames: ['outcome'],
    registers,
  })
  const lost = new Counter({
    name: 'gatehouse_ip_restriction_hits_lost_total',
    help: 'Refusals and warnings whose source address was not recorded because the buffer was full.',
    registers,
  })
  const lostSightings = new Counter({
    name: 'gatehouse_sightings_lost_total',
    help: 'API key uses whose source address was not recorded because the buffer was full.',
    registers,
  })
  const droppedFromReports = new Counter({
    name: 'gatehouse_edge_report_parts_dropped_total',
    help: 'Counts, refusals, states of upstreams and whole reports of edge nodes dropped because they were out of bounds.',
    registers,
  })
  const edgeRequests = new Counter({
    name: 'gatehouse_kept_requests_total',
    help: 'Requests that edge nodes sent to this process to keep. dropped: beyond a quota; unknown: of no edge of the account; refused: out of bounds.',
    labelNames: ['fate'],
    registers,
  })
  const refusedHostports = new Gauge({
    name: 'gatehouse_refused_hostports',
    help: 'Hostports not in force because another account already had an overlapping one. Updated hourly.',
    registers,
  })
  const newlyRefused = new Gauge({
    name: 'gatehouse_newly_refused_addresses',
    help: 'Addresses refused within 24 hours after they had been let in within seven days, by type of traffic. Updated every minute.',
    labelNames: ['type'],
    registers,
  })
  return {
    showNewlyRefused(byType) {
      for (const [type, count] of Object.entries(byType)) newlyRefused.set({ type }, count)
    },
    observeRestriction: (outcome) => restricted.inc({ outcome }),
    countLostHits: (hits) => lost.inc(hits),
    countLostSightings: (sightings) => lostSightings.inc(sightings),
    countDroppedFromReports: (parts) => droppedFromReports.inc(parts),
    countEdgeRequests(counts) {
      for (const [fate, count] of Object.entries(counts)) edgeRequests.inc({ fate }, count)
    },
    showRefusedHostports: (count) => refusedHostports.set(count),
  }
}

function webhookMetrics(registers: Registers): Metrics['webhooks'] {
  const attempts = new Counter({
    name: 'gatehouse_webhook_attempts_total',
    help: 'Events that this process has sent to webhook destinations. dead: the last attempt failed.',
    labelNames: ['outcome'],
    registers,
  })
  const deliveries = new Gauge({
    name: 'gatehouse_webhook_deliveries',
    help: 'Events that wait for delivery, and dead ones. Updated every 15 seconds.',
    labelNames: ['status'],
    registers,
  })
  const oldest = new Gauge({
    name: 'gatehouse_webhook_oldest_pending_seconds',
    help: 'Age of the oldest event that waits for delivery. Updated every 15 seconds.',
    registers,
  })
  return {
    attempted: (outcome) => attempts.inc({ outcome }),
    queue({ pending, dead, oldestSeconds }) {
      deliveries.set({ status: 'pending' }, pending)
      deliveries.set({ status: 'dead' }, dead)
      oldest.set(oldestSeconds)
    },
  }
}

/** The generation that this process has sent to the nodes, by cell. */
type Progress = Map<string, number>

function publisherMetrics(registers: Registers, progress: Progress): Metrics['publisher'] {
  const published = new Counter({
    name: 'gatehouse_publisher_records_total',
    help: 'Records published to edge nodes by this process.',
    registers,
  })
  const behind = new Gauge({
    name: 'gatehouse_publisher_generations_behind',
    help: 'Generations committed but not yet published, as of the last check by the publisher of the cell.',
    labelNames: ['cell'],
    registers,
  })
  const active = new Gauge({
    name: 'gatehouse_publisher_active',
    help: '1 on the process that publishes changes to the edge nodes of the cell, 0 on the others.',
    labelNames: ['cell'],
    registers,
  })
  const heldBack = new Gauge({
    name: 'gatehouse_publisher_held_back',
    help: 'Accounts, policies and records that edge nodes keep as they were: most of an account or policy is missing from the database without a change that explains it, or a record cannot be sent.',
    labelNames: ['cell'],
    registers,
  })
  return (cell) => {
    for (const gauge of [behind, active, heldBack]) gauge.set({ cell }, 0)
    return {
      heldBack: (count) => heldBack.set({ cell }, count),
      published: (records) => published.inc(records),
      behind: (generations) => behind.set({ cell }, generations),
      sent: (generation) => void progress.set(cell, generation),
      active: (isActive) => active.set({ cell }, isActive ? 1 : 0),
      forget() {
        for (const gauge of [behind, active, heldBack]) gauge.remove({ cell })
        progress.delete(cell)
      },
    }
  }
}
