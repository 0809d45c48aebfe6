import { type Db, maybeOne, run } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import type { Made } from './make.ts'

/** So that every control-plane process knows of it, on whichever machine it was made. */
export const recordBackup = (db: Db, { file, bytes, sha256, snapshotAt }: Made): Promise<void> =>
  run(
    db,
    sql`
    insert into backups (file, bytes, sha256, snapshot_at)
    values (${file}, ${bytes}, ${sha256}, ${snapshotAt.toISOString()})`,
  )

/** The moment that the newest complete backup shows; undefined when there is none. */
export async function newestBackup(db: Db): Promise<Date | undefined> {
  const row = await maybeOne<{ at: string }>(
    db,
    sql`select snapshot_at as at from backups order by snapshot_at desc limit 1`,
  )
  return row && new Date(row.at)
}
