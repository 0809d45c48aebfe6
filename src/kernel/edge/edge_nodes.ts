/** States of one backend address on one node. */
export const upstreamStatuses = ['up', 'down', 'failing'] as const
export type UpstreamStatus = (typeof upstreamStatuses)[number]

/** Certificates on one node: those of accounts and those in the operator's folder. */
export type CertificateCounts = {
  names: number
  waiting: number
  firstExpiry: string | null
  /** Names of HTTPS edges without a certificate. Nodes before 0.3 do not send it. */
  missing?: number
  /** `missing` by account. Nodes before 0.3 do not send it. */
  uncovered?: Uncovered
}
/** `isCut`: the report has no room for further accounts. */
export type Uncovered = { accounts: readonly UncoveredOfAccount[]; isCut: boolean }
/** `count` may exceed the length of `names`, which is limited. */
export type UncoveredOfAccount = { account: string; count: number; names: readonly string[] }

/** Records that the node refused, so they are not in force until newer ones replace them. */
export type RefusedCounts = {
  records: number
  lowest: number | null
  /**
   * Ascending. If too many, the highest; generations from `lowest` up to the first of these may then also contain some.
   */
  generations: readonly number[]
}

export const differenceKinds = ['changed', 'missing', 'unexpected'] as const
/** Differences between HAProxy's state and the agent's intended state, repaired or due for repair. */
export type NodeDifferences = {
  /** Count since the agent started. */
  found: number
  /** When the first difference was found since the last complete comparison without any. */
  since: string | null
  /** When a complete comparison last found no difference. */
  agreedAt: string | null
  /** The latest differences: a map, 'native backend' or 'certificate', and the key or name in it. */
  latest: readonly { what: string; name: string; kind: (typeof differenceKinds)[number]; at: string }[]
}

/** An emergency order that a node enforces; see distribution/emergency.ts. */
export type EmergencyInForce = { id: string; ranges: number; reason: string; expiresAt: string }

/** An edge node as the control plane knows it, from its last report. */
export type EdgeNode = {
  node: string
  cell: string
  version: string
  startedAt: string
  /** The node enforces every record up to this generation. */
  applied: number
  records: number
  /** The latest refused records, with reasons. */
  refusals: { key: string; generation: number | null; reason: string; at: string }[]
  /** Totals of all refused records. Absent in agents before 0.3. */
  refused?: RefusedCounts
  /** Why the node cannot write to its disk. Absent while it can. */
  storageFault?: string
  /** Absent in agents before 0.3. */
  differences?: NodeDifferences
  /** Unexpected exits of HAProxy since the agent started. Absent in agents before 0.3. */
  proxyLosses?: number
  /** Absent in agents before 0.3. */
  emergencies?: EmergencyInForce[]
  /**
   * Routes and TCP edges shut because the number of nodes that share their limits is unknown. Absent in agents before
   * 0.3.
   */
  shutLimits?: number
  /** Number of backend addresses by status. Absent in agents before 0.2. */
  upstreams?: Record<UpstreamStatus, number>
  /** The node counts rule hits. Absent in agents before 0.2. */
  countsRules?: boolean
  /** The node counts its traffic. Absent in agents before 0.3 and in agents that see only part of it. */
  countsTraffic?: boolean
  /** The node's public key. Absent in agents before 0.2. */
  nodeKey?: string
  certificates?: CertificateCounts
  /** Milliseconds. */
  lastSeenAt: number
  /** When a report first showed an increase, in milliseconds of our clock, not the node's. */
  proxyLostAt?: number
  differedAt?: number
  live: boolean
}
/** Live nodes, divided into those that have applied a generation and those behind. */
export type NodeStatus = { live: EdgeNode[]; applied: EdgeNode[]; behind: EdgeNode[] }

/** A record that the control plane cannot send to any node. */
export type WithheldRecord = { key: string; reason: string }
/** A change with a withheld record is applied nowhere. */
export type ChangeStatus = NodeStatus & { withheld: WithheldRecord[] }
