import { type Db, one } from './pool.ts'
import { type SqlFragment, sql } from './sql.ts'

/** Rows per statement: it must stay below every time-out and below what requests waiting for a row would notice. */
const batchSize = 5_000

/**
 * Applies a change to all selected rows in batches. After a long pause there may be more rows than one statement can
 * handle before its time-out, and it would never succeed. `change` gets the ctids of a batch and must make `select` no
 * longer match them. Resolves to the number of rows.
 */
export async function inBatches(
  db: Db,
  select: SqlFragment,
  change: (batch: SqlFragment) => SqlFragment,
): Promise<number> {
  let total = 0
  for (;;) {
    // Skips locked rows until the next run: waiting for them could deadlock.
    const batch = sql`any(array(${select} limit ${batchSize} for update skip locked))`
    const { count } = await one<{ count: number }>(
      db,
      sql`with changed as (${change(batch)} returning 1) select count(*) from changed`,
    )
    total += count
    if (count < batchSize) return total
  }
}

export const deleteInBatches = (db: Db, table: SqlFragment, condition: SqlFragment): Promise<number> =>
  inBatches(
    db,
    sql`select ctid from ${table} where ${condition}`,
    (batch) => sql`delete from ${table} where ctid = ${batch}`,
  )
