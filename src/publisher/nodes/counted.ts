import { type Db, type DbPool, later, many, maybeOne, one } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { transaction } from '../../db/transaction.ts'
import type { RecordKey } from '../../distribution/records.ts'
import { maxCountedNodes } from '../../kernel/edge/cells.ts'
import { toId, type Uuid } from '../../kernel/ids.ts'
import { writeOutboxOfMany } from '../../operations/outbox.ts'
import { type Cell, isPlaced } from '../../operations/placement.ts'
import { type Compiler, ids, unavailable } from '../records/changed.ts'

/**
 * The number of nodes in the cell that may serve requests. A silent node may have lost only the control plane. It
 * therefore counts until it is revoked, or has been silent for an hour, the longest window, while others were not. A
 * joined node counts before its first report.
 */
const nodesOf = (cell: Cell) => sql`
  select least(${maxCountedNodes}, greatest(1, count(*)))::int as nodes from (
    select e.name from edge_nodes e
    where e.cell_id = ${cell.id}
      and e.last_seen_at > (select max(last_seen_at) from edge_nodes where cell_id = ${cell.id}) - interval '1 hour'
      and (not exists (select from fleet_nodes f where f.name = e.name)
        or exists (select from fleet_nodes f where f.name = e.name and f.revoked_at is null))
    union
    select f.name from fleet_nodes f
    where f.cell_id = ${cell.id} and f.revoked_at is null and f.joined_at > now() - interval '1 hour') counted`

/** Resolves to whether the number has changed, so that nodes have to learn it. */
export async function countNodes(db: DbPool, cell: Cell): Promise<boolean> {
  const isOther = await maybeOne(
    db,
    sql`
    select from cells c, (${nodesOf(cell)}) now where c.id = ${cell.id} and c.counted_nodes is distinct from now.nodes`,
  )
  return isOther !== undefined && (await transaction(db, (tx) => recountNodes(tx, cell)))
}

/** Runs in the transaction in which a node joins, so that the other nodes know of it before its first request. */
export async function recountNodes(tx: Db, cell: Cell): Promise<boolean> {
  // Serialized before the count: an earlier count must not overwrite the one that includes a new node.
  await later(tx, sql`select from cells where id = ${cell.id} for no key update`)
  const { nodes } = await one<{ nodes: number }>(tx, nodesOf(cell))
  const changed = await maybeOne(
    tx,
    sql`
    update cells set counted_nodes = ${nodes} where id = ${cell.id} and counted_nodes is distinct from ${nodes} returning id`,
  )
  if (!changed) return false
  const accounts = await many<{ id: Uuid }>(
    tx,
    sql`select account_id as id from accounts_with_cell_limits where ${isPlaced(sql`account_id`, cell)}`,
  )
  if (accounts.length === 0) return false
  await writeOutboxOfMany(
    tx,
    cell,
    accounts.map(({ id }) => ({ accountId: id, key: `cell_nodes.${toId('ac', id)}` satisfies RecordKey })),
  )
  return true
}

export const compileCellNodes: Compiler = async (db, changed, _now, { cell, onUnavailable }) => {
  const rows = await many<{ id: Uuid; nodes: number | null }>(
    db,
    sql`
    select a.account_id as id, c.counted_nodes as nodes from accounts_with_cell_limits a, cells c
    where a.account_id = any(${ids(changed)}) and c.id = ${cell.id}`,
  )
  for (const { id, nodes } of rows)
    if (nodes === null) onUnavailable?.(`cell_nodes.${toId('ac', id)}`, 'the nodes of the cell were not counted yet')
  return new Map(rows.map(({ id, nodes }) => [id, nodes === null ? unavailable : { value: { nodes } }]))
}
