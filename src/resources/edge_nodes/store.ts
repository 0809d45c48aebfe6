import { type Db, many } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { type Cell, defaultCell } from '../../operations/placement.ts'

/** The accepted key of each node, as `node key`. Nodes are the installation's, so there is no account in it. */
export async function acceptedNodeKeys(db: Db): Promise<Set<string>> {
  const rows = await many<{ accepted: string }>(
    db,
    sql`select node || ' ' || public_key as accepted from edge_node_keys where accepted`,
  )
  return new Set(rows.map(({ accepted }) => accepted))
}

export type JoinedNodes = ReadonlyMap<string, { readonly cell: string; readonly joined_at: string }>

/** By name. Revoked ones are among them, because they are listed for a while. */
export async function findJoinedNodes(db: Db): Promise<JoinedNodes> {
  const rows = await many<{ node: string; cell: string; joined_at: string }>(
    db,
    sql`
    select distinct on (f.name) f.name as node, c.name as cell, f.joined_at
    from fleet_nodes f join cells c on c.id = f.cell_id order by f.name, f.joined_at desc`,
  )
  return new Map(rows.map(({ node, ...place }) => [node, place]))
}

/** A node that connects with a password instead of having joined is in the default cell. */
export const cellOf = (node: string, joined: JoinedNodes): string => joined.get(node)?.cell ?? defaultCell.name

export const nodesIn = <Node extends { readonly node: string }>(
  cells: readonly Cell[],
  nodes: readonly Node[],
  joined: JoinedNodes,
): Node[] => nodes.filter(({ node }) => cells.some(({ name }) => name === cellOf(node, joined)))
