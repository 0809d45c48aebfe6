import { type DbPool, one } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { rfc3339 } from '../../kernel/clock.ts'

const dayMs = 24 * 60 * 60 * 1_000
/** So that there is a partition even when upkeep fails for a day, or a node's clock is ahead. */
const daysAhead = 2
const dayOf = (moment: number): string => rfc3339(moment).slice(0, 10)

// Like those of the audit, through functions of the database that run as the owner of the tables.

/** Makes the partitions of today and the next days. Run often, by any process: it does nothing when they are there. */
export async function addRequestPartitions(db: DbPool, now: number): Promise<void> {
  for (let offset = 0; offset <= daysAhead; offset++)
    await one(db, sql`select add_request_partition(${dayOf(now + offset * dayMs)}::date)`)
}

/** Drops every day that ended before this moment. */
export async function dropRequestPartitions(db: DbPool, oldest: number): Promise<string[]> {
  const dropped: string[] = []
  for (;;) {
    // One at a time: each lock is a short one.
    const { name } = await one<{ name: string | null }>(
      db,
      sql`select drop_request_partition(${dayOf(oldest)}::date) as name`,
    )
    if (name === null) return dropped
    dropped.push(name)
  }
}
