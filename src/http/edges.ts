import type { ChangeStatus, EdgeNode } from '../kernel/edge/edge_nodes.ts'
import type { Id, Uuid } from '../kernel/ids.ts'

/** Which requests a viewer wants to see as they happen. Null matches all. */
export type WatchFilter = {
  account: Id<'ac'>
  /** Names of the cells that serve the account. */
  cells: readonly string[]
  edge: string | null
  outcome: string | null
  /** A CIDR range. */
  source: string | null
}

/** What request handlers can ask about edge nodes. Implemented by the link to them; empty without edges. */
export type EdgeView = {
  all: () => readonly EdgeNode[]
  /** Whether this process hears from nodes. Without edges there is nothing to hear, and true. */
  isConnected: () => boolean
  /** Tells about the nodes that serve the account. */
  status: (generation: number, accountId: Uuid) => Promise<ChangeStatus>
  /** Tells the publisher that there is something new, and resolves when it is in force or the time is over. */
  waitFor: (generation: number, accountId: Uuid, timeoutMs: number) => Promise<ChangeStatus>
  /** The same on the nodes of all waves; it ends early when the change is halted. */
  waitForAll: (generation: number, accountId: Uuid, timeoutMs: number) => Promise<ChangeStatus>
  /** Those of the account that have not reached all waves. */
  rolloutsOf: (accountId: Uuid) => Promise<readonly { id: Id<'ro'>; isHalted: boolean }[]>
  committed: () => void
  /** Live requests, of the form in which edge nodes tell of them. Returns how to end it. */
  watch: (
    filter: WatchFilter,
    watcher: { onRequest: (request: object) => void; onDropped: (count: number) => void },
  ) => () => void
  /** Why no node can be told of anything now. */
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

/** How long `?wait=applied` waits for edge nodes that are behind. */
export const waitAppliedMs = 10_000
/** The same for `?wait=released`, which includes the watches. */
export const waitReleasedMs = 120_000
