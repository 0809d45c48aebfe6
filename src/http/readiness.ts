import { migrationFault } from '../db/migrate.ts'
import { type Db, many } from '../db/pool.ts'
import { sql } from '../db/sql.ts'

const durable: Record<string, readonly string[]> = {
  fsync: ['on'],
  full_page_writes: ['on'],
  synchronous_commit: ['on', 'remote_apply'],
}

/**
 * What keeps this process from serving; empty when nothing does. A database that acknowledges a commit before it is
 * on disk is such a thing: a revoked key would come back to life after a power cut.
 */
export async function readinessFaults(db: Db): Promise<string[]> {
  try {
    const settings = await many<{ name: string; setting: string }>(
      db,
      sql`select name, setting from pg_settings where name = any(${Object.keys(durable)})`,
    )
    const unsafe = settings.filter(({ name, setting }) => !durable[name]?.includes(setting))
    const migrations = await migrationFault(db)
    return [
      ...unsafe.map(
        ({ name, setting }) =>
          `PostgreSQL runs with ${name}=${setting}, which can lose acknowledged changes: set it to on`,
      ),
      ...(migrations ? [migrations] : []),
    ]
  } catch (error) {
    return [`PostgreSQL does not answer: ${(error as Error).message || (error as { code?: string }).code}`]
  }
}
