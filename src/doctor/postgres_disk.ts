import type { Config } from '../config/config.ts'
import { type DbPool, one, run } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { transaction } from '../db/transaction.ts'
import { type Finding, failed, ok, warning } from './finding.ts'

const check = 'postgresql.disk'
const makeRoom = 'Free space on the disk of PostgreSQL'

/** SQL cannot show the remaining space. It can show whether there is any, and what consumes it without limit. */
export async function checkPostgresDisk(_config: Config, db: DbPool): Promise<Finding[]> {
  const fault = await writeFault(db)
  if (fault) return [fault]
  const found = [...(await checkSlots(db)), ...(await checkArchive(db))]
  return found.length > 0 ? found : [ok(check, 'PostgreSQL can write, and deletes old parts of its log')]
}

class UndoneOnPurpose extends Error {}

/** Writes a megabyte and rolls it back. */
async function writeFault(db: DbPool): Promise<Finding | undefined> {
  try {
    await transaction(db, async (tx) => {
      await run(tx, sql`create temporary table gatehouse_doctor (filling text) on commit drop`)
      await tx.query({ text: "insert into gatehouse_doctor select repeat('x', 1000) from generate_series(1, 1000)" })
      throw new UndoneOnPurpose()
    })
  } catch (error) {
    const { code = '', message } = error as { code?: string; message: string }
    if (error instanceof UndoneOnPurpose) return undefined
    if (code === '53100') return failed(check, `PostgreSQL cannot write: ${message}`, makeRoom)
    if (code === '25006')
      return failed(
        check,
        'PostgreSQL accepts no changes: it is a standby, or default_transaction_read_only is on',
        'Connect to the primary, or set it to off',
      )
    // Without the right to create temporary tables, the result is unknown.
    if (code !== '42501') throw error
  }
  return undefined
}

/** A replication slot without a reader retains the log until the disk is full. */
async function checkSlots(db: DbPool): Promise<Finding[]> {
  const { names, megabytes } = await one<{ names: string | null; megabytes: number }>(
    db,
    sql`
    select string_agg(slot_name, ', ') as names,
      coalesce(max(case when pg_is_in_recovery() then 0 else pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn) end) / 1048576, 0)::int
        as megabytes
    from pg_replication_slots where not active and restart_lsn is not null`,
  )
  return names === null
    ? []
    : [
        warning(
          check,
          `replication slots without a reader keep ${megabytes} MB of the log, and more every day: ${names}`,
          'Start their standby, or remove them with pg_drop_replication_slot',
        ),
      ]
}

/** PostgreSQL also retains log segments that it cannot archive. */
async function checkArchive(db: DbPool): Promise<Finding[]> {
  const { failing } = await one<{ failing: boolean }>(
    db,
    sql`
    select coalesce(last_failed_time > coalesce(last_archived_time, '-infinity'), false) as failing from pg_stat_archiver`,
  )
  return failing
    ? [
        warning(
          check,
          'archive_command fails, so PostgreSQL keeps its log until the disk is full',
          'See the log of PostgreSQL, and correct archive_command',
        ),
      ]
    : []
}
