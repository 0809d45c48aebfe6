/** States of one address of a backend, on one node. */
export const upstreamStatuses = ['up', 'down', 'failing'] as const
export type UpstreamStatus = (typeof upstreamStatuses)[number]

/** Counts the certificates on one node, those of accounts and those in its operator's folder. */
export type CertificateCounts = {
  names: number
  waiting: number
  firstExpiry: string | null
  /** Names of HTTPS edges without a certificate. Nodes before 0.3 do not send it. */
  missing?: number
  /** The same by account. Nodes before 0.3 do not send it. */
  uncovered?: Uncovered
}
/** `isCut`: there are further accounts, for which a report has no room. */
export type Uncovered = { accounts: readonly UncoveredOfAccount[]; isCut: boolean }
/** `count` may be more than there is room for in `names`. */
export type UncoveredOfAccount = { account: string; count: number; names: readonly string[] }

/** Records that are not in force on a node because it refused them, until others come in their place. */
export type RefusedCounts = {
  records: number
  lowest: number | null
  /** Ascending; the highest when there are more than fit. Each from `lowest` to the first of these may then be another. */
  generations: readonly number[]
}

export const differenceKinds = ['changed', 'missing', 'unexpected'] as const
/** What in HAProxy was not as the agent had left it, and was repaired or is to be. */
export type NodeDifferences = {
  /** Since the agent started. */
  found: number
  /** When the first was found that no complete comparison without any has followed. */
  since: string | null
  /** When a complete comparison last found none. */
  agreedAt: string | null
  /** The last ones: a map, 'native backend' or 'certificate', and the key or name in it. */
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
  /** Every record up to this generation is in force on the node. */
  applied: number
  records: number
  /** What the node refused to apply, and why; the last ones. */
  refusals: { key: string; generation: number | null; reason: string; at: string }[]
  /** Counts of everything that it refused. Absent in agents before 0.3. */
  refused?: RefusedCounts
  /** Why the node cannot write to its disk. Missing while it can. */
  storageFault?: string
  /** Absent in agents before 0.3. */
  differences?: NodeDifferences
  /** How often HAProxy has ended without being asked to, since the agent started. Absent in agents before 0.3. */
  proxyLosses?: number
  /** Absent in agents before 0.3. */
  emergencies?: EmergencyInForce[]
  /** Routes and TCP edges that are shut: it is not known how many nodes share their limits. Absent in agents before 0.3. */
  shutLimits?: number
  /** How many addresses of backends have each status. Absent in agents before 0.2. */
  upstreams?: Record<UpstreamStatus, number>
  /** It counts which rules decide. Absent in agents before 0.2. */
  countsRules?: boolean
  /** It counts its traffic. Absent in agents before 0.3, and in those that see only a part of it. */
  countsTraffic?: boolean
  /** The node's public key. Absent in agents before 0.2. */
  nodeKey?: string
  certificates?: CertificateCounts
  /** Milliseconds. */
  lastSeenAt: number
  /** When a report first counted one more of these than the one before, in milliseconds, by our clock and not the node's. */
  proxyLostAt?: number
  differedAt?: number
  live: boolean
}
/** Which of the live nodes have applied a generation, and which have not. */
export type NodeStatus = { live: EdgeNode[]; applied: EdgeNode[]; behind: EdgeNode[] }

/** A record that the control plane cannot send to any node. */
export type WithheldRecord = { key: string; reason: string }
/** A change of which a record is withheld is applied nowhere. */
export type ChangeStatus = NodeStatus & { withheld: WithheldRecord[] }
