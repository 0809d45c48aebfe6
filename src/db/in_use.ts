import { violates } from './failures.ts'
import { type Db, later, run } from './pool.ts'
import { type SqlFragment, sql } from './sql.ts'

/**
 * Deletes an unreferenced row. The foreign keys decide, not an earlier SELECT, because an attach may race this delete.
 * Resolves to false if a foreign key objects; the transaction stays usable, to find the reference.
 */
export async function deleteUnlessReferenced(
  tx: Db,
  statement: SqlFragment,
  foreignKeys: readonly string[],
): Promise<boolean> {
  await later(tx, sql`savepoint before_delete`)
  try {
    await run(tx, statement)
    return true
  } catch (error) {
    if (!foreignKeys.some((constraint) => violates(error, constraint))) throw error
    await run(tx, sql`rollback to savepoint before_delete`)
    return false
  }
}
