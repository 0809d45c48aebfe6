/** An edge node as the control plane knows it, from its last report. */
export type EdgeNode = {
  node: string
  version: string
  startedAt: string
  /** Every record up to this generation is in force on the node. */
  applied: number
  records: number
  /** What the node refused to apply, and why; the last ones. */
  refusals: { key: string; generation: number | null; reason: string; at: string }[]
  /** Milliseconds. */
  lastSeenAt: number
  live: boolean
}
/** Which of the live nodes have applied a generation, and which have not. */
export type NodeStatus = { live: EdgeNode[]; applied: EdgeNode[]; behind: EdgeNode[] }
