import { type Db, many, maybeOne, run } from '../db/pool.ts'
import { type SqlFragment, sql } from '../db/sql.ts'
import { defaultCellName } from '../kernel/edge/cells.ts'
import type { Uuid } from '../kernel/ids.ts'

/** A set of nodes that serve the same accounts. */
export type Cell = { readonly id: number; readonly name: string }

/** Exists in every installation. */
export const defaultCell: Cell = { id: 1, name: defaultCellName }

export const listCells = (db: Db): Promise<Cell[]> => many<Cell>(db, sql`select id, name from cells order by id`)

export const findCell = (db: Db, name: string): Promise<Cell | undefined> =>
  maybeOne<Cell>(db, sql`select id, name from cells where name = ${name}`)

/** SQL expression: whether the account is placed in the cell. */
export const isPlaced = (accountId: SqlFragment, cell: Cell): SqlFragment => sql`is_placed(${accountId}, ${cell.id})`

/** SQL expression: whether an edge limited to `cells` is served in the cell, if its account is placed there. */
export const isServedIn = (cells: SqlFragment, cell: Cell): SqlFragment =>
  sql`(${cells} is null or ${cell.name} = any(${cells}))`

/** The accounts among these that are placed in the cell. */
export async function placedIn(db: Db, cell: Cell, accounts: readonly Uuid[]): Promise<Set<Uuid>> {
  const rows = await many<{ id: Uuid }>(
    db,
    sql`select id from unnest(${[...new Set(accounts)]}::uuid[]) as id where ${isPlaced(sql`id`, cell)}`,
  )
  return new Set(rows.map(({ id }) => id))
}

/** Cells that serve the account. */
export const cellsOf = (db: Db, accountId: Uuid): Promise<Cell[]> =>
  many<Cell>(db, sql`select id, name from cells where is_placed(${accountId}, id) order by id`)

/** Number of nodes by which limits of each cell are divided; omits cells without a count yet. */
export async function countedNodes(db: Db, cells: readonly Cell[]): Promise<Map<number, number>> {
  const rows = await many<{ id: number; nodes: number }>(
    db,
    sql`
    select id, counted_nodes as nodes from cells
    where id = any(${cells.map(({ id }) => id)}::int[]) and counted_nodes is not null`,
  )
  return new Map(rows.map(({ id, nodes }) => [id, nodes]))
}

/**
 * Outbox key that tells the cell's publisher about a placement or removal. The publisher derives the affected records
 * when it sends it, because concurrent changes may be invisible to this transaction.
 */
export const placementKey = (cell: Cell): string => `placement.${cell.name}`
export const isPlacementKey = (key: string): boolean => key.startsWith('placement.')

/** Places the account in exactly these cells, or in every default cell if there are none. */
export async function placeAccount(
  tx: Db,
  accountId: Uuid,
  cells: readonly Cell[],
): Promise<{ before: Cell[]; after: Cell[] }> {
  // Serializes two operators who place the same account.
  await run(tx, sql`select from accounts where id = ${accountId} for no key update`)
  const before = await cellsOf(tx, accountId)
  await run(tx, sql`delete from account_cells where account_id = ${accountId}`)
  const ids = cells.map(({ id }) => id)
  await run(
    tx,
    sql`insert into account_cells (account_id, cell_id) select ${accountId}, id from unnest(${ids}::int[]) as id`,
  )
  const after = await cellsOf(tx, accountId)
  await noteMoves(tx, accountId, before, after)
  await dropRollouts(tx, accountId, before, after)
  return { before, after }
}

async function noteMoves(tx: Db, accountId: Uuid, before: Cell[], after: Cell[]): Promise<void> {
  const [was, is] = [before, after].map((cells) => new Set(cells.map(({ id }) => id)))
  const changed = [...before, ...after].filter(({ id }) => was?.has(id) !== is?.has(id))
  await run(
    tx,
    sql`
    with next as materialized (select next_generation() as generation)
    insert into outbox (generation, account_id, key, cell_id)
    select next.generation, ${accountId}, moved.key, moved.cell_id from next, unnest(
      ${changed.map(placementKey)}::text[], ${changed.map(({ id }) => id)}::int[]) as moved (key, cell_id)`,
  )
}

/** Ends rollouts in cells that the account leaves: its records there are deleted, not restored to an earlier state. */
async function dropRollouts(tx: Db, accountId: Uuid, before: Cell[], after: Cell[]): Promise<void> {
  const left = before.map(({ id }) => id).filter((id) => !after.some((cell) => cell.id === id))
  if (left.length === 0) return
  await run(
    tx,
    sql`update publisher_state set rollouts_version = rollouts_version + 1 where cell_id = any(${left}::int[])`,
  )
  await run(tx, sql`delete from rollouts where account_id = ${accountId} and cell_id = any(${left}::int[])`)
}
