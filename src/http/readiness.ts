import { migrationFault } from '../db/migrate.ts'
import { type Db, many, one } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { type Clock, clockOffset } from '../kernel/clock.ts'

const durable: Record<string, readonly string[]> = {
  fsync: ['on'],
  full_page_writes: ['on'],
  synchronous_commit: ['on', 'remote_apply'],
}

/** Settings with which PostgreSQL may lose what it has acknowledged. */
export async function durabilityFaults(db: Db): Promise<{ name: string; value: string }[]> {
  const settings = await many<{ name: string; value: string }>(
    db,
    sql`select name, setting as value from pg_settings where name = any(${Object.keys(durable)})`,
  )
  return settings.filter(({ name, value }) => !durable[name]?.includes(value))
}

/** How far our clock is ahead of that of PostgreSQL, in milliseconds. */
export async function databaseClockOffset(db: Db, clock: Clock): Promise<number> {
  const asked = clock()
  const { now } = await one<{ now: number }>(
    db,
    sql`select (extract(epoch from clock_timestamp()) * 1000)::float8 as now`,
  )
  return clockOffset(asked, now, clock())
}

/**
 * What keeps this process from serving; empty when nothing does. A database that acknowledges a commit before it is
 * on disk is such a thing: a revoked key would come back to life after a power cut.
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
    // The limit of this process, not of PostgreSQL.
    if (/^E[MN]FILE$/.test(code)) return [`no file descriptors are left (${code}): raise the limit of this process`]
    return [`PostgreSQL does not answer: ${message || code}`]
  }
}
