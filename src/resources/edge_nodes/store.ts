import { type Db, many } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'

/** The accepted key of each node, as `node key`. Nodes are the installation's, so there is no account in it. */
export async function acceptedNodeKeys(db: Db): Promise<Set<string>> {
  const rows = await many<{ accepted: string }>(
    db,
    sql`select node || ' ' || public_key as accepted from edge_node_keys where accepted`,
  )
  return new Set(rows.map(({ accepted }) => accepted))
}
