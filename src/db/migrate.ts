import { hash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { type Db, type DbPool, many } from './pool.ts'
import { sql } from './sql.ts'
import { transaction } from './transaction.ts'

// The same depth below the package's root in src/ and in dist/.
const folder = new URL('../../migrations/', import.meta.url)
/** Any constant will do, as long as nothing else in the database takes the same advisory lock. */
const migrationLock = 7_204_113_001

type Migration = { name: string; text: string; checksum: string }
type Applied = { name: string; checksum: string }

export async function readMigrations(): Promise<Migration[]> {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.sql')).sort()
  return Promise.all(
    names.map(async (name) => {
      const text = await readFile(new URL(name, folder), 'utf8')
      return { name, text, checksum: hash('sha256', text, 'hex') }
    }),
  )
}

/**
 * Applies what is not applied yet, all in one transaction: a failed upgrade leaves the database as it was. Several
 * processes may call this at once; the advisory lock lets one work and the others find nothing to do. The pool must
 * have no short time-outs: a migration of a large table takes its time, and so does waiting for it. Resolves to the
 * names of those applied. `finish` does, in the same transaction, what SQL alone cannot.
 */
export async function migrate(
  pool: DbPool,
  finish: (tx: Db, applied: readonly string[]) => Promise<void> = async () => {},
): Promise<string[]> {
  const known = await readMigrations()
  return transaction(pool, async (tx) => {
    await tx.query({ text: `select pg_advisory_xact_lock(${migrationLock})` })
    await tx.query({
      text: `create table if not exists migrations (
               name text primary key, checksum text not null, applied_at timestamptz(3) not null default now())`,
    })
    const missing = pending(known, await applied(tx))
    for (const migration of missing) {
      await tx.query({ text: migration.text })
      await many(tx, sql`insert into migrations (name, checksum) values (${migration.name}, ${migration.checksum})`)
    }
    const names = missing.map(({ name }) => name)
    await finish(tx, names)
    return names
  })
}

/** Undefined when the database is exactly at this program's version; otherwise what to do, for /readyz and the log. */
export async function migrationFault(db: Db): Promise<string | undefined> {
  const known = await readMigrations()
  try {
    const missing = pending(known, await applied(db))
    return missing.length
      ? `run 'gatehouse migrate': ${missing.map(({ name }) => name).join(', ')} not applied`
      : undefined
  } catch (error) {
    if ((error as { code?: string }).code === '42P01') return "run 'gatehouse migrate': the database is empty"
    if (error instanceof MigrationMismatch) return error.message
    throw error
  }
}

export class MigrationMismatch extends Error {
  override readonly name = 'MigrationMismatch'
}

const applied = (db: Db): Promise<Applied[]> =>
  many<Applied>(db, sql`select name, checksum from migrations order by name`)

function pending(known: Migration[], done: Applied[]): Migration[] {
  for (const [index, { name, checksum }] of done.entries()) {
    const expected = known[index]
    // Older processes go on while a newer version has migrated: migrations only add what the one before can live with.
    if (!expected) break
    if (expected.name !== name || expected.checksum !== checksum) {
      throw new MigrationMismatch(
        `migration ${name} in the database differs from ${expected.name} in this program: they come from different histories`,
      )
    }
  }
  return known.slice(done.length)
}
