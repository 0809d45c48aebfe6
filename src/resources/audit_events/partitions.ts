import { type Db, type DbPool, many } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { transaction } from '../../db/transaction.ts'
import { firstUuidOf } from '../../kernel/ids.ts'

const monthsAhead = 3
/** Any constant will do, as long as nothing else in the database takes the same advisory lock. */
const partitionLock = 7_204_113_002

/** The first moment of the month that is `offset` months after that of `now`. */
const monthStart = (now: number, offset: number): number => {
  const date = new Date(now)
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + offset)
}
const partitionName = (start: number): string =>
  `audit_events_${new Date(start).toISOString().slice(0, 7).replace('-', '_')}`

const namesOfPartitions = async (db: Db): Promise<string[]> => {
  const found = await many<{ name: string }>(
    db,
    sql`select inhrelid::regclass::text as name from pg_inherits where inhparent = 'audit_events'::regclass order by 1`,
  )
  return found.map(({ name }) => name)
}

/** IF (NOT) EXISTS does not help two who begin at once: both look, both act, and the second fails. */
async function namesInTurn(tx: Db): Promise<string[]> {
  await tx.query({ text: `select pg_advisory_xact_lock(${partitionLock})` })
  return namesOfPartitions(tx)
}

/** Makes the partitions of this month and the next ones. Run often, by any process: it does nothing when they are there. */
export async function addAuditPartitions(db: DbPool, now: number): Promise<void> {
  const present = await namesOfPartitions(db)
  for (let offset = 0; offset <= monthsAhead; offset++) {
    const start = monthStart(now, offset)
    if (!present.includes(partitionName(start)))
      await transaction(db, (tx) => addPartition(tx, start, monthStart(now, offset + 1)))
  }
}

async function addPartition(tx: Db, start: number, end: number): Promise<void> {
  const name = partitionName(start)
  if ((await namesInTurn(tx)).includes(name)) return
  const [from, to] = [firstUuidOf(start), firstUuidOf(end)]
  const range = `for values from ('${from}') to ('${to}')`
  const inRange = `id >= '${from}' and id < '${to}'`
  const stray = await tx.query({ text: `select from audit_events_default where ${inRange} limit 1` })
  if (stray.rows.length === 0) {
    await tx.query({ text: `create table ${name} partition of audit_events ${range}` })
    return
  }
  // Events came before their partition. PostgreSQL refuses one whose rows the default partition holds: they move first.
  await tx.query({
    text: `lock table audit_events in share row exclusive mode;
           create table ${name} (like audit_events including all);
           with moved as (delete from audit_events_default where ${inRange} returning *)
             insert into ${name} select * from moved;
           alter table audit_events attach partition ${name} ${range}`,
  })
}

/** Drops every month that ended more than `keepMonths` months ago, and says which. 0 keeps everything. */
export async function dropAuditPartitions(db: DbPool, now: number, keepMonths: number): Promise<string[]> {
  if (keepMonths === 0) return []
  const oldestKept = monthStart(now, -keepMonths)
  const expired = (await namesOfPartitions(db)).filter(
    (name) => /^audit_events_\d{4}_\d\d$/.test(name) && name < partitionName(oldestKept),
  )
  const dropped: string[] = []
  for (const name of expired)
    await transaction(db, async (tx) => {
      if (!(await namesInTurn(tx)).includes(name)) return
      await tx.query({ text: `drop table ${name}` })
      dropped.push(name)
    })
  await db.query({ text: `delete from audit_events_default where id < '${firstUuidOf(oldestKept)}'` })
  return dropped
}
