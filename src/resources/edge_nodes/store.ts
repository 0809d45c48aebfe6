import { type Db, many } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import type { Caller } from '../../identity/caller.ts'
import type { EdgeNode } from '../../kernel/edge/edge_nodes.ts'
import { cellsOf } from '../../operations/placement.ts'

/** Accepted keys of nodes, as `node key`. Nodes belong to the installation, so rows have no account. */
export async function acceptedNodeKeys(db: Db): Promise<Set<string>> {
  const rows = await many<{ accepted: string }>(
    db,
    sql`select node || ' ' || public_key as accepted from edge_node_keys where accepted`,
  )
  return new Set(rows.map(({ accepted }) => accepted))
}

/** Join time by node name. Includes revoked nodes, which stay listed for a while. */
export async function joinTimes(db: Db): Promise<ReadonlyMap<string, string>> {
  const rows = await many<{ name: string; joined_at: string }>(
    db,
    sql`select name, max(joined_at) as joined_at from fleet_nodes group by name`,
  )
  return new Map(rows.map(({ name, joined_at }) => [name, joined_at]))
}

/** Nodes in the account's cells that reported within the last week. */
export async function keptNodes(db: Db, { accountId }: Pick<Caller, 'accountId'>): Promise<string[]> {
  const rows = await many<{ name: string }>(
    db,
    sql`select n.name from edge_nodes n where is_placed(${accountId}, n.cell_id)`,
  )
  return rows.map(({ name }) => name)
}

/** Nodes that serve the account. */
export async function ownNodes(
  db: Db,
  { accountId }: Pick<Caller, 'accountId'>,
  all: readonly EdgeNode[],
): Promise<EdgeNode[]> {
  const own = new Set((await cellsOf(db, accountId)).map(({ name }) => name))
  return all.filter(({ cell }) => own.has(cell))
}
