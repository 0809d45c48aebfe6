import type { EdgeNode, NodeStatus } from '../kernel/edge_nodes.ts'

/** What request handlers can ask about edge nodes. Implemented by the link to them; empty without edges. */
export type EdgeView = {
  all: () => EdgeNode[]
  status: (generation: number) => NodeStatus
  /** Tells the publisher that there is something new, and resolves when it is in force or the time is over. */
  waitFor: (generation: number, timeoutMs: number) => Promise<NodeStatus>
  committed: () => void
  /** Why no node can be told of anything now. */
  fault: () => string | undefined
}

const nobody: NodeStatus = { live: [], applied: [], behind: [] }
export const noEdges: EdgeView = {
  all: () => [],
  status: () => nobody,
  waitFor: async () => nobody,
  committed() {},
  fault: () => undefined,
}

/** How long `?wait=applied` waits for edge nodes that are behind. */
export const waitAppliedMs = 10_000
