import { type Db, many } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { firstUuidOf } from '../../kernel/ids.ts'

const monthsAhead = 3

/** The first moment of the month that is `offset` months after that of `now`. */
const monthStart = (now: number, offset: number): number => {
  const date = new Date(now)
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + offset)
}
const partitionName = (start: number): string =>
  `audit_events_${new Date(start).toISOString().slice(0, 7).replace('-', '_')}`

/** Makes the partitions of this month and the next ones. Run often: it does nothing when they are there. */
export async function addAuditPartitions(db: Db, now: number): Promise<void> {
  for (let offset = 0; offset <= monthsAhead; offset++) {
    const start = monthStart(now, offset)
    await db.query({
      text: `create table if not exists ${partitionName(start)} partition of audit_events
             for values from ('${firstUuidOf(start)}') to ('${firstUuidOf(monthStart(now, offset + 1))}')`,
    })
  }
}

/** Drops every month that ended more than `keepMonths` months ago, and says which. 0 keeps everything. */
export async function dropAuditPartitions(db: Db, now: number, keepMonths: number): Promise<string[]> {
  if (keepMonths === 0) return []
  const oldestKept = partitionName(monthStart(now, -keepMonths))
  const partitions = await many<{ name: string }>(
    db,
    sql`select inhrelid::regclass::text as name from pg_inherits where inhparent = 'audit_events'::regclass order by 1`,
  )
  const expired = partitions
    .map(({ name }) => name)
    .filter((name) => /^audit_events_\d{4}_\d\d$/.test(name) && name < oldestKept)
  for (const name of expired) await db.query({ text: `drop table ${name}` })
  return expired
}
