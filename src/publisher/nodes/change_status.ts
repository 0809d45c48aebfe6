import type { DbPool } from '../../db/pool.ts'
import type { ChangeStatus, NodeStatus } from '../../kernel/edge/edge_nodes.ts'
import type { Uuid } from '../../kernel/ids.ts'
import { cellsOf } from '../../operations/placement.ts'
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

const namesOfCells = async (db: DbPool, accountId: Uuid): Promise<Set<string>> =>
  new Set((await cellsOf(db, accountId)).map(({ name }) => name))

/** Which nodes of the account's cells apply a change, in their own words and without what was withheld from them. */
export const changeStatus = (db: DbPool, nodes: EdgeNodes) => ({
  async status(generation: number, accountId: Uuid) {
    return withoutWithheld(db, generation, nodes.status(generation, await namesOfCells(db, accountId)))
  },
  async waitFor(generation: number, accountId: Uuid, timeoutMs: number) {
    const cells = await namesOfCells(db, accountId)
    return withoutWithheld(db, generation, await nodes.waitFor(generation, cells, timeoutMs))
  },
})
