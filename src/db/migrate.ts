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
  /** Runs in the migrations' transaction, for work that SQL alone cannot do. */
  finish?: (tx: Db, applied: readonly string[]) => Promise<void>
  known?: readonly Migration[]
  locks?: LockWaitOptions
}
const noLimit: LockWaitOptions = { limitMs: 0, say: () => {} }

/**
 * Applies pending migrations. Consecutive ones share a transaction, so a failure rolls back those before it too; one
 * with the header `-- no transaction` runs alone. Several processes may call this concurrently: one migrates, and the
 * others then find nothing to do. The pool must have no short time-outs, because migrating a large table takes time.
 * Resolves to the names of the applied migrations.
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
      // A broken connection has already released its lock.
      await run(db, sql`select ${unlockInSession('migrate')}`).catch(() => {})
    }
  })

const lookEveryMs = 200

/** Polls, because waiting inside a statement would hold a snapshot that `create index concurrently` waits for. */
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
 * While a migration waits for a lock, requests queue behind it. Below deadlock_timeout (1 s), so that in a deadlock the
 * migration gives up, never a request.
 */
const lockTimeoutMs = 200

/**
 * Takes all locks first, in a fixed order per mode, so that no other transaction can interfere after the first change.
 */
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

/** On a lock time-out, lets the waiting requests through and tries again. */
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

/** Groups consecutive migrations that can share a transaction. */
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
 * For `create index concurrently if not exists`, which cannot run in a transaction. An interrupted build leaves an
 * invalid index that PostgreSQL maintains but never uses, and `if not exists` would accept it.
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

/**
 * Sends statements one by one, because several together would form a transaction. Each ends with a semicolon at the end
 * of a line.
 */
const statementsOf = (text: string): string[] =>
  text
    .replaceAll(/^--.*$/gm, '')
    .split(/;[ \t]*$/m)
    .map((statement) => statement.trim())
    .filter(Boolean)

const isInvalid = async (db: Db, index: string): Promise<boolean> =>
  (await maybeOne(db, sql`select from pg_index where indexrelid = to_regclass(${index}) and not indisvalid`)) !==
  undefined

/** Undefined if the database has exactly this program's version; otherwise what to do, for /readyz and the log. */
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
    // Older processes keep running after a newer version has migrated: a migration adds only what the previous version
    // tolerates.
    if (!expected) break
    if (expected.name !== name || expected.checksum !== checksum) {
      throw new MigrationMismatch(
        `migration ${name} in the database differs from ${expected.name} in this program: they come from different histories`,
      )
    }
  }
  return known.slice(done.length)
}
