import { defaultCellName } from '../kernel/edge/cells.ts'
import type {
  CertificateCounts,
  EmergencyInForce,
  NodeDifferences,
  RefusedCounts,
  UpstreamStatus,
} from '../kernel/edge/edge_nodes.ts'
import type { ReportedTraffic } from './traffic_report.ts'

/**
 * Names of the buckets and subjects of a wave of a cell. A node may read the records, pieces and batches of its wave and
 * the watches of its cell, and may send only on subjects that end with its own name.
 */
export function channelsOf(cell: string, wave: number | '*' = 0) {
  // Nodes from before cells existed use the default cell's names.
  const isDefault = cell === defaultCellName
  // Cell names contain no underscores, so no two of these names collide.
  const bucketOfCell = isDefault ? 'gatehouse' : `gatehouse_cell_${cell}`
  const subject = isDefault ? 'gatehouse' : `gatehouse.cell.${cell}`
  // Nodes from before waves existed use the names of the first wave.
  const bucket = wave === 0 ? bucketOfCell : `${bucketOfCell}_wave_${wave}`
  return {
    records: bucket,
    blobs: `${bucket}_blobs`,
    /** The bucket's batches as plain messages, which do not wait for a leader. */
    batches: wave === 0 ? `${subject}.batches` : `${subject}.wave.${wave}.batches`,
    /** The control plane's current watches, for all nodes (watches.ts). */
    watches: `${subject}.watches`,
    reports: (node: string): string => `${subject}.reports.${node}`,
    /** Requests that a node has kept, in batches that are acknowledged (request_batch.ts). */
    requests: (node: string): string => `${subject}.requests.${node}`,
    /** Watched requests that a node has seen. */
    tail: (node: string): string => `${subject}.tail.${node}`,
  }
}
export type Channels = ReturnType<typeof channelsOf>
export const defaultChannels = channelsOf(defaultCellName)

/** The subjects of nodes in all cells. NATS lets a node send only under the name of its own cell. */
const fromAllNodes = (what: string): string[] => [`gatehouse.${what}.*`, `gatehouse.cell.*.${what}.*`]
export const allReports = fromAllNodes('reports')
export const allRequests = fromAllNodes('requests')
export const allTails = fromAllNodes('tail')
export function senderOf(subject: string): { cell: string; node: string } {
  const [, kind, cell = defaultCellName] = subject.split('.')
  return { cell: kind === 'cell' ? cell : defaultCellName, node: subject.split('.').at(-1) ?? '' }
}

/**
 * Key of the bucket's progress entry: the generation up to which the bucket has everything. Written after the records.
 */
export const progressKey = 'progress'
/** Answered with a new NATS user JWT for a joined node. */
export const renewalSubject = (node: string): string => `gatehouse.renewals.${node}`
/**
 * The renewal subject on its way through the account of the node's cell: a leaf server may ask only for nodes of that
 * cell.
 */
export const linkedRenewalSubject = (cell: string, node: string): string => `gatehouse.cell.${cell}.renewals.${node}`
export const allRenewals = fromAllNodes('renewals')
/** Sent after committing a change, so that publishers need not wait for their next poll. */
export const wakeSubject = 'gatehouse.wake'

/**
 * Prefix under which nodes reach the reading half of the JetStream API. It is not `$JS.API`, because in a node's account
 * NATS itself would answer there that the account has no JetStream.
 */
export const apiPrefix = 'gatehouse.api'

export const inboxOf = (node: string): string => `_INBOX_${node}`

/** States that everything since generation `after` up to `settled` has been sent. Sealed like a record. */
export type Progress = {
  after: number
  settled: number
  /**
   * The bucket that this entry is written to, identified by its creation time: a node that continues in a replacement
   * bucket must not take the entry for the end of its read. Absent from publishers before 0.3.
   */
  bucket?: string
  /** Digest of the accompanying records, so that none can be removed on the way. */
  digest?: string
  /**
   * Creation time of the bucket that holds everything up to `settled`, signed with this key. Missing while a bucket is
   * refilled: a node must not take its partial content for everything.
   */
  complete?: string
  /**
   * Accompanies `complete`: everything that exists was sent under this generation or a later one. If a node knows a
   * record under an earlier generation and the bucket lacks it, the resource was deleted and the deletion was lost.
   */
  floor?: number
  /**
   * Accompanies `complete`: the digest of all live records with their generations (live_set.ts), so that a node detects
   * a missing, replaced or withheld record. Absent from publishers before 0.3.
   */
  live?: string
}
export type Batch = { progress: string; records: string[] }

export type Report = {
  node: string
  version: string
  startedAt: string
  /** Every record up to this generation is in force on the node. */
  applied: number
  records: number
  /** The node's public key, to which private keys are encrypted. Absent in agents before 0.2. */
  nodeKey?: string
  /**
   * Number of names with an account's certificate on the node, number of unusable certificates, and the first expiry.
   */
  certificates?: CertificateCounts
  refusals: RecordRefusal[]
  /** Counts of all refusals. Absent in agents before 0.3. */
  refused?: RefusedCounts
  /** Why the node cannot write to its disk. Missing while it can. */
  storageFault?: string
  /** Absent in agents before 0.3. */
  differences?: NodeDifferences
  /** Number of unexpected exits of HAProxy since the agent started. Absent in agents before 0.3. */
  proxyLosses?: number
  /** Emergency orders that the node received without the control plane. Absent in agents before 0.3. */
  emergencies?: EmergencyInForce[]
  /**
   * Number of routes and TCP edges that are shut because the number of nodes that share their limits is unknown. Absent
   * in agents before 0.3.
   */
  shutLimits?: number
  /** Refusals and warnings by address since the last report, for the control plane to add up. */
  hits: EdgeHit[]
  /** The number of `hits`, answered with `keptHits` once they are in the database. Absent in agents before 0.3. */
  hitBatch?: HitBatch
  /** Addresses that were allowed since the last report, each about once an hour. Absent in agents before 0.2. */
  allowed?: AllowedAddress[]
  /** True if the node counts which rules decide. Absent in agents before 0.2. */
  countsRules?: boolean
  /** Has its own report, answered with `keptRuleHits` once the counts are in the database. */
  ruleHits?: ReportedRuleHits
  /** True if the node counts its traffic. Absent in agents before 0.3, and in those that see only part of it. */
  countsTraffic?: boolean
  /** Has its own report, answered with `keptTraffic` once the counts are in the database. */
  traffic?: ReportedTraffic
  /** Upstreams that changed since the last report, and some of the rest. Absent in agents before 0.2. */
  health?: UpstreamHealth[]
  /** Number of addresses per status, of all that the node knows. */
  upstreams?: Record<UpstreamStatus, number>
}

export type RecordRefusal = { key: string; generation: number | null; reason: string; at: string }

export const maxRefusedGenerations = 500

/** Batches of one sender have ascending numbers, so that a repeated one is added once. */
export type HitBatch = { sender: string; batch: number }
export const keptHits = (batch: number): string => `kept hits ${batch}`
/**
 * Answer to hits without a batch number. Control planes before 0.3 send it for numbered hits too, and add these every
 * time.
 */
export const kept = 'kept'

export type ReportedRuleHits = HitBatch & { hits: RuleHitCount[] }
export const keptRuleHits = (batch: number): string => `kept rule hits ${batch}`

/** How often a rule decided on one day, by outcome. Times are in milliseconds. */
export type RuleHitCount = {
  account: string
  rule: string
  /** Start of the day in UTC. */
  day: number
  allowed: number
  refused: number
  warned: number
  lastAt: number
}

export const maxReasonCharacters = 200

/** State of one address of a backend, as the node sees it. */
export type UpstreamHealth = {
  backend: string
  address: string
  port: number
  /** `cleared`: the state is no longer known. */
  status: UpstreamStatus | 'cleared'
  reason: string | null
  since: string
  /** Set for `failing`: time of the last failed request. */
  lastFailedAt?: string
}

/** An address that was allowed at a TCP edge or a route. */
export type AllowedAddress = { target: string; source: string; lastAt: string }

export type EdgeHit = {
  /** The deciding restriction of the account; null if the edge's or route's own policies decided. */
  restriction: string | null
  /** The TCP edge or the route. Absent in agents before 0.2. */
  target?: string
  source: string
  outcome: 'refused' | 'warned'
  count: number
  lastAt: string
}
