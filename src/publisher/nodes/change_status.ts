import type { DbPool } from '../../db/pool.ts'
import type { ChangeStatus, NodeStatus } from '../../kernel/edge/edge_nodes.ts'
import { withheldAt } from '../withheld.ts'
import type { EdgeNodes } from './nodes.ts'

/**
 * Nodes go on to later generations without a record that was withheld from them. Asked after their reports, because the
 * publisher writes it down first. If the database does not answer, no node counts as having applied the change.
 */
async function withoutWithheld(db: DbPool, generation: number, status: NodeStatus): Promise<ChangeStatus> {
  const withheld = await withheldAt(db, generation).catch(() => undefined)
  if (withheld?.length === 0) return { ...status, withheld }
  return { live: status.live, applied: [], behind: status.live, withheld: withheld ?? [] }
}

/** Which nodes apply a change, in their own words and without what was withheld from them. */
export const changeStatus = (db: DbPool, nodes: EdgeNodes) => ({
  status: (generation: number) => withoutWithheld(db, generation, nodes.status(generation)),
  waitFor: async (generation: number, timeoutMs: number) =>
    withoutWithheld(db, generation, await nodes.waitFor(generation, timeoutMs)),
})
