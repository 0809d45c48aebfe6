/** What request handlers can ask about edge nodes. Implemented by the link to them; empty without edges. */
export type NodeView = {
  node: string
  live: boolean
  applied: number
  records: number
  version: string
  startedAt: string
  lastSeenAt: number
  refusals: { key: string; generation: number | null; reason: string; at: string }[]
}
export type NodeStatusView = { live: NodeView[]; applied: NodeView[]; behind: NodeView[] }
export type EdgeView = {
  all: () => NodeView[]
  status: (generation: number) => NodeStatusView
  /** Tells the publisher that there is something new, and resolves when it is in force or the time is over. */
  waitFor: (generation: number, timeoutMs: number) => Promise<NodeStatusView>
  committed: () => void
  /** Why no node can be told of anything now. */
  fault: () => string | undefined
}

const nobody: NodeStatusView = { live: [], applied: [], behind: [] }
export const noEdges: EdgeView = {
  all: () => [],
  status: () => nobody,
  waitFor: async () => nobody,
  committed() {},
  fault: () => undefined,
}

/** How long `?wait=applied` waits for edge nodes that are behind. */
export const waitAppliedMs = 10_000
