import type { ChangeStatus, EdgeNode } from '../kernel/edge/edge_nodes.ts'
import type { Id, Uuid } from '../kernel/ids.ts'

/** Selects the live requests to stream. Null matches all. */
export type WatchFilter = {
  account: Id<'ac'>
  /** Names of the cells that serve the account. */
  cells: readonly string[]
  edge: string | null
  outcome: string | null
  /** A CIDR range. */
  source: string | null
}

/** Edge nodes as seen by request handlers. Empty if edges are not configured. */
export type EdgeView = {
  all: () => readonly EdgeNode[]
  /** Whether this process receives reports of nodes. Always true if edges are not configured. */
  isConnected: () => boolean
  /** Status on the nodes that serve the account. */
  status: (generation: number, accountId: Uuid) => Promise<ChangeStatus>
  /** Wakes the publisher. Resolves once the change is in force or the time is over. */
  waitFor: (generation: number, accountId: Uuid, timeoutMs: number) => Promise<ChangeStatus>
  /** Like `waitFor`, for the nodes of all waves. Returns early if the change is halted. */
  waitForAll: (generation: number, accountId: Uuid, timeoutMs: number) => Promise<ChangeStatus>
  /** Rollouts of the account that have not reached all waves. */
  rolloutsOf: (accountId: Uuid) => Promise<readonly { id: Id<'ro'>; isHalted: boolean }[]>
  committed: () => void
  /** Streams live requests in the format that edge nodes report. Returns a function that stops it. */
  watch: (
    filter: WatchFilter,
    watcher: { onRequest: (request: object) => void; onDropped: (count: number) => void },
  ) => () => void
  /** Why changes cannot reach nodes now. */
  fault: () => string | undefined
}

const noNodes: ChangeStatus = { live: [], applied: [], behind: [], withheld: [] }
export const noEdges: EdgeView = {
  all: () => [],
  isConnected: () => true,
  status: async () => noNodes,
  waitFor: async () => noNodes,
  waitForAll: async () => noNodes,
  rolloutsOf: async () => [],
  committed() {},
  watch: () => () => {},
  fault: () => undefined,
}

/** Time limit of `?wait=applied`. */
export const waitAppliedMs = 10_000
/** Time limit of `?wait=released`, which includes the watches. */
export const waitReleasedMs = 120_000
