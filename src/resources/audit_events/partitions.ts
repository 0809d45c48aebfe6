import { type DbPool, many, one } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { rfc3339 } from '../../kernel/clock.ts'

const monthsAhead = 3

/** First day of the month `offset` months after `now`, such as 2027-01-01. */
const monthStart = (now: number, offset: number): string => {
  const date = new Date(now)
  return rfc3339(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + offset)).slice(0, 10)
}

// Both call database functions that run as the owner of the tables; see docs/adr/0036.

/** Creates the partitions of this month and the next ones if missing. Any process may call it repeatedly. */
export async function addAuditPartitions(db: DbPool, now: number): Promise<void> {
  const present = await many<{ name: string }>(
    db,
    sql`
    select c.relname as name from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'audit_events'::regclass`,
  )
  for (let offset = 0; offset <= monthsAhead; offset++) {
    const start = monthStart(now, offset)
    const partition = `audit_events_${start.slice(0, 7).replace('-', '_')}`
    if (!present.some(({ name }) => name === partition)) await one(db, sql`select add_audit_partition(${start}::date)`)
  }
}

/** Drops months that ended more than `keepMonths` months ago, and returns their names. 0 keeps everything. */
export async function dropAuditPartitions(db: DbPool, now: number, keepMonths: number): Promise<string[]> {
  const dropped: string[] = []
  for (;;) {
    // One partition per transaction, to keep locks on the audit log short.
    const { name } = await one<{ name: string | null }>(
      db,
      sql`select drop_audit_partition(${keepMonths}, ${rfc3339(now)}) as name`,
    )
    if (name === null) return dropped
    dropped.push(name)
  }
}
