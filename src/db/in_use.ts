import { violates } from './failures.ts'
import { type Db, later, run } from './pool.ts'
import { type SqlFragment, sql } from './sql.ts'

/**
 * Deletes what nothing may refer to any more. The foreign keys decide, not an earlier SELECT: an attachment may race
 * this. Resolves to false when one of them objects; the transaction can then go on, to say who it is.
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
