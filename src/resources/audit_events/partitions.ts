import { type Db, type DbPool, many, maybeOne } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { transaction } from '../../db/transaction.ts'
import { firstUuidOf } from '../../kernel/ids.ts'

const monthsAhead = 3
/** Two processes that make or drop partitions at once would meet each other's half-done work. */
const partitionLock = 7_204_113_002

/** The first moment of the month that is `offset` months after that of `now`. */
const monthStart = (now: number, offset: number): number => {
  const date = new Date(now)
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + offset)
}
const partitionName = (start: number): string =>
  `audit_events_${new Date(start).toISOString().slice(0, 7).replace('-', '_')}`

/** Makes the partitions of this month and the next ones. Run often: it does nothing when they are there. */
export async function addAuditPartitions(pool: DbPool, now: number): Promise<void> {
  for (let offset = 0; offset <= monthsAhead; offset++) {
    const start = monthStart(now, offset)
    await locked(pool, (tx) =>
      addPartition(tx, partitionName(start), firstUuidOf(start), firstUuidOf(monthStart(now, offset + 1))),
    )
  }
}

async function addPartition(tx: Db, name: string, from: string, to: string): Promise<void> {
  if (await maybeOne(tx, sql`select from pg_class where oid = to_regclass(${name})`)) return
  // What came before its partition was there lies in the default one, and has to move: the ranges must not overlap.
  await tx.query({ text: `create table ${name} (like audit_events including defaults including constraints)` })
  await tx.query({
    text: `with moved as (delete from audit_events_default where id >= '${from}' and id < '${to}' returning *)
           insert into ${name} select * from moved`,
  })
  await tx.query({ text: `alter table audit_events attach partition ${name} for values from ('${from}') to ('${to}')` })
}

/** Drops every month that ended more than `keepMonths` months ago, and says which. 0 keeps everything. */
export async function dropAuditPartitions(pool: DbPool, now: number, keepMonths: number): Promise<string[]> {
  if (keepMonths === 0) return []
  const oldestKept = partitionName(monthStart(now, -keepMonths))
  return locked(pool, async (tx) => {
    const partitions = await many<{ name: string }>(
      tx,
      sql`select inhrelid::regclass::text as name from pg_inherits where inhparent = 'audit_events'::regclass order by 1`,
    )
    const expired = partitions
      .map(({ name }) => name)
      .filter((name) => /^audit_events_\d{4}_\d\d$/.test(name) && name < oldestKept)
    for (const name of expired) await tx.query({ text: `drop table ${name}` })
    return expired
  })
}

const locked = <Result>(pool: DbPool, work: (tx: Db) => Promise<Result>): Promise<Result> =>
  transaction(pool, async (tx) => {
    await tx.query({ text: `select pg_advisory_xact_lock(${partitionLock})` })
    return work(tx)
  })
