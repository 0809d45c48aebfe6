import { hash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { packageFiles } from '../kernel/package_files.ts'
import { tryLockInSession, unlockInSession } from './advisory_locks.ts'
import { createLockWait, holdersOfAdvisoryLock, holdersOfTables, type LockWaitOptions } from './lock_waits.ts'
import { assertNamesLocks, type LockMode, locksTable } from './migration_locks.ts'
import { type Db, type DbPool, many, maybeOne, one, run } from './pool.ts'
import { sql } from './sql.ts'
import { session } from './transaction.ts'

export type Migration = { name: string; text: string; checksum: string }
type Applied = { name: string; checksum: string }

export async function readMigrations(): Promise<Migration[]> {
  const names = (await readdir(packageFiles.migrations)).filter((name) => name.endsWith('.sql')).sort()
  return Promise.all(
    names.map(async (name) => {
      const text = await readFile(join(packageFiles.migrations, name), 'utf8')
      return { name, text, checksum: hash('sha256', text, 'hex') }
    }),
  )
}

type Options = {
  /** Does, in the transaction of the migrations that it is given, what SQL alone cannot. */
  finish?: (tx: Db, applied: readonly string[]) => Promise<void>
  known?: readonly Migration[]
  locks?: LockWaitOptions
}
const noLimit: LockWaitOptions = { limitMs: 0, say: () => {} }

/**
 * Applies what is not applied yet. Migrations that follow each other share a transaction, so a failed one takes back those
 * before it; only one with the header `-- no transaction` is on its own. Several processes may call this at once: one
 * works, and the others find nothing to do. The pool must have no short time-outs: a migration of a large table takes its
 * time. Resolves to the names of those applied.
 */
export const migrate = (
  pool: DbPool,
  { finish = async () => {}, known, locks = noLimit }: Options = {},
): Promise<string[]> =>
  session(pool, async (db, inTransaction) => {
    await lock(db, locks)
    try {
      await db.query({
        text: `create table if not exists migrations (
                 name text primary key, checksum text not null, applied_at timestamptz(3) not null default now())`,
      })
      const missing = pending(known ?? (await readMigrations()), await applied(db))
      for (const migration of missing) if (!isOutsideTransactions(migration)) assertNamesLocks(migration)
      for (const group of groups(missing)) {
        const [first] = group
        if (first && isOutsideTransactions(first)) await applyOutside(db, first)
        else
          await untilLocked(db, locks, () =>
            inTransaction('begin', async (tx) => {
              await lockTables(tx, group)
              for (const migration of group) {
                await tx.query({ text: migration.text })
                await note(tx, migration)
              }
              await finish(
                tx,
                group.map(({ name }) => name),
              )
            }),
          )
      }
      return missing.map(({ name }) => name)
    } finally {
      // A connection that broke has lost its lock already.
      await run(db, sql`select ${unlockInSession('migrate')}`).catch(() => {})
    }
  })

const lookEveryMs = 200

/** Asks again and again. Waiting inside a statement would hold a snapshot, for which `create index concurrently` waits. */
async function lock(db: Db, options: LockWaitOptions): Promise<void> {
  const wait = createLockWait(options)
  for (;;) {
    const { locked } = await one<{ locked: boolean }>(db, sql`select ${tryLockInSession('migrate')} as locked`)
    if (locked) return
    await wait.notYet(db, "another 'gatehouse migrate'", holdersOfAdvisoryLock('migrate'))
    await new Promise((resolve) => setTimeout(resolve, lookEveryMs))
  }
}

/**
 * While this waits for a lock, requests of running processes wait behind it. Shorter than the second after which PostgreSQL
 * looks for deadlocks: it is the migration that gives way, never a request.
 */
const lockTimeoutMs = 200

/** Takes all locks first, and tables of a mode in one order, so that nothing can come between once the first change is made. */
async function lockTables(tx: Db, group: readonly Migration[]): Promise<void> {
  const tables = await many<{ name: string }>(
    tx,
    sql`
    select relname as name from pg_class
    where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p') and not relispartition order by 1`,
  )
  const toLock = (mode: LockMode) =>
    tables.map(({ name }) => name).filter((name) => group.some((migration) => locksTable(migration, name, mode)))
  await tx.query({ text: `set local lock_timeout = ${lockTimeoutMs}` })
  for (const mode of ['access exclusive', 'share row exclusive'] as const) {
    const names = toLock(mode)
    if (names.length === 0) continue
    await tx
      .query({ text: `lock table ${names.map((name) => `"${name}"`).join(', ')} in ${mode} mode` })
      .catch((error) => {
        throw codeOf(error) === '55P03' ? new TablesInUse(names, error) : error
      })
  }
  await tx.query({ text: 'set local lock_timeout = default' })
}

const codeOf = (error: unknown): string | undefined => (error as { code?: string }).code
const deadlock = '40P01'

class TablesInUse extends Error {
  readonly tables: readonly string[]
  constructor(tables: readonly string[], cause: unknown) {
    super(`${tables.join(', ')} in use`, { cause })
    this.tables = tables
  }
}

/** Another transaction had one of the tables: lets the requests through that wait, and tries again. */
async function untilLocked(db: Db, options: LockWaitOptions, work: () => Promise<void>): Promise<void> {
  const wait = createLockWait(options)
  for (;;) {
    try {
      return await work()
    } catch (error) {
      if (error instanceof TablesInUse)
        await wait.notYet(db, `the tables ${error.tables.join(', ')}`, holdersOfTables(error.tables))
      else if (codeOf(error) !== deadlock) throw error
      await new Promise((resolve) => setTimeout(resolve, lookEveryMs))
    }
  }
}

const note = (db: Db, { name, checksum }: Migration): Promise<void> =>
  run(db, sql`insert into migrations (name, checksum) values (${name}, ${checksum})`)

const isOutsideTransactions = ({ text }: Migration): boolean => text.startsWith('-- no transaction\n')

/** Neighbors that can share a transaction. */
function groups(migrations: readonly Migration[]): Migration[][] {
  const found: Migration[][] = []
  let open: Migration[] | undefined
  for (const migration of migrations) {
    if (open && !isOutsideTransactions(migration)) {
      open.push(migration)
      continue
    }
    const group = [migration]
    found.push(group)
    open = isOutsideTransactions(migration) ? undefined : group
  }
  return found
}

const concurrentIndex = /^create (?:unique )?index concurrently if not exists (\w+) on /i

/**
 * For `create index concurrently if not exists`, which cannot run in a transaction. A process that ended half-way left
 * an index that PostgreSQL maintains but never uses, and that `if not exists` would take for the finished one.
 */
async function applyOutside(db: Db, migration: Migration): Promise<void> {
  for (const statement of statementsOf(migration.text)) {
    const [, index] = concurrentIndex.exec(statement) ?? []
    if (!index) throw new Error(`${migration.name} has a statement that is not safe to repeat: ${statement}`)
    if (await isInvalid(db, index)) await db.query({ text: `drop index concurrently ${index}` })
    await db.query({ text: statement })
  }
  await note(db, migration)
}

/** Each is sent alone: several together would be a transaction. They end with a semicolon at the end of a line. */
const statementsOf = (text: string): string[] =>
  text
    .replaceAll(/^--.*$/gm, '')
    .split(/;[ \t]*$/m)
    .map((statement) => statement.trim())
    .filter(Boolean)

const isInvalid = async (db: Db, index: string): Promise<boolean> =>
  (await maybeOne(db, sql`select from pg_index where indexrelid = to_regclass(${index}) and not indisvalid`)) !==
  undefined

/** Undefined when the database is exactly at this program's version; otherwise what to do, for /readyz and the log. */
export async function migrationFault(db: Db): Promise<string | undefined> {
  const known = await readMigrations()
  try {
    const missing = pending(known, await applied(db))
    return missing.length
      ? `run 'gatehouse migrate': ${missing.map(({ name }) => name).join(', ')} not applied`
      : undefined
  } catch (error) {
    if (codeOf(error) === '42P01') return "run 'gatehouse migrate': the database is empty"
    if (error instanceof MigrationMismatch) return error.message
    throw error
  }
}

export class MigrationMismatch extends Error {
  override readonly name = 'MigrationMismatch'
}

const applied = (db: Db): Promise<Applied[]> =>
  many<Applied>(db, sql`select name, checksum from migrations order by name`)

function pending(known: readonly Migration[], done: readonly Applied[]): Migration[] {
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
