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
 * The names of the buckets and subjects of a wave of a cell. A node may read the records, pieces and batches of its wave and
 * the watches of its cell, and send only on subjects that end with its own name.
 */
export function channelsOf(cell: string, wave: number | '*' = 0) {
  // Nodes of the versions before cells use its names.
  const isDefault = cell === defaultCellName
  // Names of cells have no underscores, so no two of these are the same.
  const bucketOfCell = isDefault ? 'gatehouse' : `gatehouse_cell_${cell}`
  const subject = isDefault ? 'gatehouse' : `gatehouse.cell.${cell}`
  // Nodes of the versions before waves use the names of the first.
  const bucket = wave === 0 ? bucketOfCell : `${bucketOfCell}_wave_${wave}`
  return {
    records: bucket,
    blobs: `${bucket}_blobs`,
    /** The same batches that go into the bucket, as plain messages: they do not wait for a leader. */
    batches: wave === 0 ? `${subject}.batches` : `${subject}.wave.${wave}.batches`,
    /** What the control plane watches at the moment, told to all nodes (watches.ts). */
    watches: `${subject}.watches`,
    reports: (node: string): string => `${subject}.reports.${node}`,
    /** Requests that a node has kept, in batches that are answered (request_batch.ts). */
    requests: (node: string): string => `${subject}.requests.${node}`,
    /** What a node sees of what is watched. */
    tail: (node: string): string => `${subject}.tail.${node}`,
  }
}
export type Channels = ReturnType<typeof channelsOf>
export const defaultChannels = channelsOf(defaultCellName)

/** The same of the nodes of all cells. NATS lets a node send under the name of its own cell only. */
const fromAllNodes = (what: string): string[] => [`gatehouse.${what}.*`, `gatehouse.cell.*.${what}.*`]
export const allReports = fromAllNodes('reports')
export const allRequests = fromAllNodes('requests')
export const allTails = fromAllNodes('tail')
/** Who has sent it. */
export function senderOf(subject: string): { cell: string; node: string } {
  const [, kind, cell = defaultCellName] = subject.split('.')
  return { cell: kind === 'cell' ? cell : defaultCellName, node: subject.split('.').at(-1) ?? '' }
}

/** Under this key in the bucket: up to which generation everything is in it. Written after the records. */
export const progressKey = 'progress'
/** Answered with a new NATS user JWT, for a node that has joined. */
export const renewalSubject = (node: string): string => `gatehouse.renewals.${node}`
/** The same on its way through the account of its cell: a leaf server asks for nodes of that cell only. */
export const linkedRenewalSubject = (cell: string, node: string): string => `gatehouse.cell.${cell}.renewals.${node}`
export const allRenewals = fromAllNodes('renewals')
/** Sent after committing a change, so that publishers need not wait for their next poll. */
export const wakeSubject = 'gatehouse.wake'

/**
 * Nodes have the reading half of the JetStream API under this name. It is not `$JS.API`: in the account of a node, NATS
 * itself would answer there, that the account has no JetStream.
 */
export const apiPrefix = 'gatehouse.api'

export const inboxOf = (node: string): string => `_INBOX_${node}`

/** Says that everything since the generation `after` up to `settled` has been sent. Sealed like a record. */
export type Progress = {
  after: number
  settled: number
  /**
   * The bucket that it is put into, by when that was made: a node that reads on in another one, made in its place, must not
   * take it for the end of what it has read. Absent from publishers before 0.3.
   */
  bucket?: string
  /** Digest of the records that come with it, so that none can be taken out on the way. */
  digest?: string
  /**
   * Names the bucket, by when it was made, that holds everything up to `settled`, signed with this key. Missing while a
   * bucket is filled again: a node must not take what it finds there for all there is.
   */
  complete?: string
  /**
   * Comes with `complete`: everything that exists was sent under this generation or a later one. If a node knows a record
   * under an earlier one and the bucket does not have it, the thing was deleted and the deletion was lost.
   */
  floor?: number
  /**
   * Comes with `complete`: the digest of all live records with their generations (live_set.ts), so that a node notices one
   * that is missing, replaced or withheld. Absent from publishers before 0.3.
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
  /** Names for which the node serves certificates of accounts, those that it cannot use, and when the first expires. */
  certificates?: CertificateCounts
  /** What the node refused to apply, and why; the last ones. */
  refusals: RecordRefusal[]
  /** Counts of everything that it refused. Absent in agents before 0.3. */
  refused?: RefusedCounts
  /** Why the node cannot write to its disk. Missing while it can. */
  storageFault?: string
  /** Absent in agents before 0.3. */
  differences?: NodeDifferences
  /** How often HAProxy has ended without being asked to, since the agent started. Absent in agents before 0.3. */
  proxyLosses?: number
  /** Orders of the operator that the node got without the control plane. Absent in agents before 0.3. */
  emergencies?: EmergencyInForce[]
  /** Routes and TCP edges that are shut: it is not known how many nodes share their limits. Absent in agents before 0.3. */
  shutLimits?: number
  /** How often an address was refused, or would have been, since the last report, for the control plane to add up. */
  hits: EdgeHit[]
  /** The number of `hits`, which are answered with `keptHits` when they are in the database. Absent in agents before 0.3. */
  hitBatch?: HitBatch
  /** Addresses that were let in since the last report, each about once an hour. Absent in agents before 0.2. */
  allowed?: AllowedAddress[]
  /** The node counts which rules decide. Absent in agents before 0.2. */
  countsRules?: boolean
  /** In a report of its own, which is answered with `keptRuleHits` when the counts are in the database. */
  ruleHits?: ReportedRuleHits
  /** The node counts its traffic. Absent in agents before 0.3, and in those that see only a part of it. */
  countsTraffic?: boolean
  /** In a report of its own, which is answered with `keptTraffic` when the counts are in the database. */
  traffic?: ReportedTraffic
  /** Upstreams that changed since the last report, and some of the rest. Absent in agents before 0.2. */
  health?: UpstreamHealth[]
  /** How many addresses have each status, of all that the node knows. */
  upstreams?: Record<UpstreamStatus, number>
}

export type RecordRefusal = { key: string; generation: number | null; reason: string; at: string }

/** How many generations a report lists. */
export const maxRefusedGenerations = 500

/** Batches of one sender have ascending numbers, so that one that comes twice is added once. */
export type HitBatch = { sender: string; batch: number }
export const keptHits = (batch: number): string => `kept hits ${batch}`
/** The answer to what has no number. Control planes before 0.3 give it to numbered hits, too, and add them every time. */
export const kept = 'kept'

export type ReportedRuleHits = HitBatch & { hits: RuleHitCount[] }
export const keptRuleHits = (batch: number): string => `kept rule hits ${batch}`

/** How often a rule decided on one day, with what outcome. Moments are in milliseconds. */
export type RuleHitCount = {
  account: string
  rule: string
  /** When the day began in UTC. */
  day: number
  allowed: number
  refused: number
  warned: number
  lastAt: number
}

/** Longest reason given for the state of an upstream. */
export const maxReasonCharacters = 200

/** How one address of a backend is, as seen by the node. */
export type UpstreamHealth = {
  backend: string
  address: string
  port: number
  /** `cleared`: nothing is known of it any more. */
  status: UpstreamStatus | 'cleared'
  reason: string | null
  since: string
  /** Of `failing`: when a request last failed there. */
  lastFailedAt?: string
}

/** That an address was let in at a TCP edge or a route. */
export type AllowedAddress = { target: string; source: string; lastAt: string }

export type EdgeHit = {
  /** The account's restriction that decided; null when it was the edge's or route's own policies. */
  restriction: string | null
  /** The TCP edge or the route. Absent in agents before 0.2. */
  target?: string
  source: string
  outcome: 'refused' | 'warned'
  count: number
  lastAt: string
}
