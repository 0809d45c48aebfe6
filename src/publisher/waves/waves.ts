import { type Db, many, maybeOne, run } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import type { Cell } from '../../operations/placement.ts'

export const cellsWithWaves = (db: Db): Promise<Cell[]> =>
  many<Cell>(db, sql`select id, name from cells where waves > 1 order by id`)

/** Creates the waves up to this one if the cell has fewer. The publisher fills their buckets from the database. */
export async function addWaves(tx: Db, cell: Cell, wave: number): Promise<boolean> {
  const grown = await maybeOne(
    tx,
    sql`update cells set waves = ${wave + 1} where id = ${cell.id} and waves <= ${wave} returning id`,
  )
  if (!grown) return false
  await run(
    tx,
    sql`
    insert into wave_state (cell_id, wave, cursor)
    select ${cell.id}, wave, settled_generation() from generate_series(1, ${wave}::int) as wave
    on conflict do nothing`,
  )
  return true
}

/** The wave of each node that is not in its cell's first wave. */
export async function laterWaves(db: Db): Promise<Map<string, number>> {
  const rows = await many<{ name: string; wave: number }>(
    db,
    sql`select name, wave from fleet_nodes where wave > 0 and revoked_at is null`,
  )
  return new Map(rows.map(({ name, wave }) => [name, wave]))
}
