import { type Db, many } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import type { Caller } from '../../identity/caller.ts'
import type { EdgeNode } from '../../kernel/edge/edge_nodes.ts'
import { cellsOf } from '../../operations/placement.ts'

/** The accepted key of each node, as `node key`. Nodes are the installation's, so there is no account in it. */
export async function acceptedNodeKeys(db: Db): Promise<Set<string>> {
  const rows = await many<{ accepted: string }>(
    db,
    sql`select node || ' ' || public_key as accepted from edge_node_keys where accepted`,
  )
  return new Set(rows.map(({ accepted }) => accepted))
}

/** When each node joined, by name. Revoked ones are among them, because they are listed for a while. */
export async function joinTimes(db: Db): Promise<ReadonlyMap<string, string>> {
  const rows = await many<{ name: string; joined_at: string }>(
    db,
    sql`select name, max(joined_at) as joined_at from fleet_nodes group by name`,
  )
  return new Map(rows.map(({ name, joined_at }) => [name, joined_at]))
}

/** Names of nodes of the account's cells that reported within the last week. */
export async function keptNodes(db: Db, { accountId }: Pick<Caller, 'accountId'>): Promise<string[]> {
  const rows = await many<{ name: string }>(
    db,
    sql`select n.name from edge_nodes n where is_placed(${accountId}, n.cell_id)`,
  )
  return rows.map(({ name }) => name)
}

/** The nodes that serve the account. */
export async function ownNodes(
  db: Db,
  { accountId }: Pick<Caller, 'accountId'>,
  all: readonly EdgeNode[],
): Promise<EdgeNode[]> {
  const own = new Set((await cellsOf(db, accountId)).map(({ name }) => name))
  return all.filter(({ cell }) => own.has(cell))
}
