import { type DbPool, one } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { rfc3339 } from '../../kernel/clock.ts'

const dayMs = 24 * 60 * 60 * 1_000
/** Ensures that a partition exists even if maintenance fails for a day or a node's clock runs ahead. */
const daysAhead = 2
const dayOf = (moment: number): string => rfc3339(moment).slice(0, 10)

// Both call database functions that run as the owner of the tables, as for the audit log.

/** Creates the partitions of today and the next days if missing. Any process may call it repeatedly. */
export async function addRequestPartitions(db: DbPool, now: number): Promise<void> {
  for (let offset = 0; offset <= daysAhead; offset++)
    await one(db, sql`select add_request_partition(${dayOf(now + offset * dayMs)}::date)`)
}

/** Drops the partitions of days that ended before this moment. */
export async function dropRequestPartitions(db: DbPool, oldest: number): Promise<string[]> {
  const dropped: string[] = []
  for (;;) {
    // One partition per transaction, to keep locks short.
    const { name } = await one<{ name: string | null }>(
      db,
      sql`select drop_request_partition(${dayOf(oldest)}::date) as name`,
    )
    if (name === null) return dropped
    dropped.push(name)
  }
}
