import { migrationFault } from '../db/migrate.ts'
import { type Db, many, one } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { type Clock, clockOffset } from '../kernel/clock.ts'

const durable: Record<string, readonly string[]> = {
  fsync: ['on'],
  full_page_writes: ['on'],
  synchronous_commit: ['on', 'remote_apply'],
}

/** PostgreSQL settings that risk losing acknowledged commits. */
export async function durabilityFaults(db: Db): Promise<{ name: string; value: string }[]> {
  const settings = await many<{ name: string; value: string }>(
    db,
    sql`select name, setting as value from pg_settings where name = any(${Object.keys(durable)})`,
  )
  return settings.filter(({ name, value }) => !durable[name]?.includes(value))
}

/**
 * `synchronous_standby_names`, and the number of connected synchronous standbys: 0 too if PostgreSQL waits for none.
 */
export async function synchronousStandbys(db: Db): Promise<{ names: string; present: number }> {
  // Without further rights, a role sees only which processes send to standbys.
  const { names, synchronous, connected, seesAll } = await one<{
    names: string
    synchronous: number
    connected: number
    seesAll: boolean
  }>(
    db,
    sql`
    select current_setting('synchronous_standby_names') as names,
      (count(*) filter (where sync_state in ('sync', 'quorum') and state = 'streaming'))::int as synchronous,
      count(*)::int as connected, pg_has_role(current_user, 'pg_read_all_stats', 'usage') as "seesAll"
    from pg_stat_replication`,
  )
  return { names, present: names === '' ? 0 : seesAll ? synchronous : connected }
}

/** How far our clock is ahead of PostgreSQL's, in milliseconds. */
export async function databaseClockOffset(db: Db, clock: Clock): Promise<number> {
  const asked = clock()
  const { now } = await one<{ now: number }>(
    db,
    sql`select (extract(epoch from clock_timestamp()) * 1000)::float8 as now`,
  )
  return clockOffset(asked, now, clock())
}

/**
 * Reasons why this process cannot serve. Includes a database that acknowledges commits before they are on disk: after a
 * power cut, a revoked key could work again.
 */
export async function readinessFaults(db: Db): Promise<string[]> {
  try {
    const unsafe = await durabilityFaults(db)
    const migrations = await migrationFault(db)
    return [
      ...unsafe.map(
        ({ name, value }) => `PostgreSQL runs with ${name}=${value}, which can lose acknowledged changes: set it to on`,
      ),
      ...(migrations ? [migrations] : []),
    ]
  } catch (error) {
    const { message, code = '' } = error as { message?: string; code?: string }
    // Reached the limit of this process, not of PostgreSQL.
    if (/^E[MN]FILE$/.test(code)) return [`no file descriptors are left (${code}): raise the limit of this process`]
    return [`PostgreSQL does not answer: ${message || code}`]
  }
}
