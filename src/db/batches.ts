import { type Db, one } from './pool.ts'
import { type SqlFragment, sql } from './sql.ts'

/** Rows of one statement: it must end before any time-out, and before requests that wait for a row notice. */
const batchSize = 5_000

/**
 * Does something to all rows that a statement selects, some at a time: after a long pause there may be more of them than one
 * statement gets done in its time, and then it would never get done. `change` gets the ctids of a batch, and must make them
 * rows that `select` no longer selects. Resolves to how many rows there were.
 */
export async function inBatches(
  db: Db,
  select: SqlFragment,
  change: (batch: SqlFragment) => SqlFragment,
): Promise<number> {
  let total = 0
  for (;;) {
    // Locked rows are left for the next run: waiting for them could deadlock.
    const batch = sql`any(array(${select} limit ${batchSize} for update skip locked))`
    const { count } = await one<{ count: number }>(
      db,
      sql`with changed as (${change(batch)} returning 1) select count(*) from changed`,
    )
    total += count
    if (count < batchSize) return total
  }
}

/** Deletes all rows of a table that meet a condition, some at a time. */
export const deleteInBatches = (db: Db, table: SqlFragment, condition: SqlFragment): Promise<number> =>
  inBatches(
    db,
    sql`select ctid from ${table} where ${condition}`,
    (batch) => sql`delete from ${table} where ctid = ${batch}`,
  )
