import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { newDatabase } from '../../test/harness/control_plane.ts'
import { poll } from '../../test/harness/poll.ts'
import { type Migration, migrate, migrationFault, readMigrations } from './migrate.ts'
import { locksTable } from './migration_locks.ts'
import { type Db, type DbPool, many, one, openPool } from './pool.ts'
import { sql } from './sql.ts'
import { transaction } from './transaction.ts'

const migration = (name: string, text: string): Migration => ({ name, text, checksum: `of ${name}` })
const table = migration('0001_things.sql', 'create table things (id int not null, name text not null);')
const index = migration(
  '0002_things_by_name.sql',
  `-- no transaction
-- For a large table.
create unique index concurrently if not exists things_id on things (id);
create index concurrently if not exists things_name on things
  (name) where name <> '';
`,
)
const column = migration('0003_things_color.sql', 'alter table things add column color text;')
const known = [table, index, column]

async function emptyDatabase(): Promise<DbPool> {
  const pool = openPool(
    { url: await newDatabase('template0'), poolSize: 4, connectTimeoutMs: 60_000, statementTimeoutMs: 0 },
    () => {},
  )
  after(() => pool.end())
  return pool
}

const indexes = (pool: DbPool) =>
  many<{ name: string; valid: boolean }>(
    pool,
    sql`
    select c.relname as name, i.indisvalid as valid from pg_index i join pg_class c on c.oid = i.indexrelid
    where i.indrelid = 'things'::regclass order by 1`,
  )
const bothValid = [
  { name: 'things_id', valid: true },
  { name: 'things_name', valid: true },
]
const applied = async (pool: DbPool) =>
  (await many<{ name: string }>(pool, sql`select name from migrations order by name`)).map(({ name }) => name)

test('a migration with the header runs outside a transaction, between those that share one', async () => {
  const pool = await emptyDatabase()
  const finished: (readonly string[])[] = []
  const names = await migrate(pool, {
    known,
    async finish(_, some) {
      finished.push(some)
    },
  })
  assert.deepEqual(names, ['0001_things.sql', '0002_things_by_name.sql', '0003_things_color.sql'])
  assert.deepEqual(finished, [['0001_things.sql'], ['0003_things_color.sql']])
  assert.deepEqual(await indexes(pool), bothValid)
  assert.deepEqual(await migrate(pool, { known }), [])
})

test('an index that a killed process left half-built is built again, and a finished one is left alone', async () => {
  const pool = await emptyDatabase()
  await migrate(pool, { known: [table] })
  await many(pool, sql`insert into things select n, 'thing ' || n from generate_series(1, 100) n`)
  // An open snapshot keeps the build waiting: then the builder is killed.
  const holder = await pool.connect()
  await holder.query('begin')
  await holder.query("insert into things values (0, 'held')")
  const failed = assert.rejects(migrate(pool, { known }))
  const building = sql`
    select pid from pg_stat_activity
    where datname = current_database() and query like 'create unique index concurrently%' and wait_event_type = 'Lock'`
  const builder = await poll(async () => (await many<{ pid: number }>(pool, building))[0])
  await one(pool, sql`select pg_terminate_backend(${builder?.pid ?? 0})`)
  await failed
  await holder.query('rollback')
  holder.release()
  assert.deepEqual(await indexes(pool), [{ name: 'things_id', valid: false }])
  assert.deepEqual(await applied(pool), ['0001_things.sql'])

  assert.deepEqual(await migrate(pool, { known }), ['0002_things_by_name.sql', '0003_things_color.sql'])
  assert.deepEqual(await indexes(pool), bothValid)
  // Killed after the build and before it was noted.
  await many(pool, sql`delete from migrations where name > '0002'`)
  await many(pool, sql`alter table things drop column color`)
  const before = await many(pool, sql`select 'things_id'::regclass::oid as oid`)
  assert.deepEqual(await migrate(pool, { known }), ['0002_things_by_name.sql', '0003_things_color.sql'])
  assert.deepEqual(await many(pool, sql`select 'things_id'::regclass::oid as oid`), before)
})

test('two processes that build an index at once do not wait for each other forever: one does it', async () => {
  const pool = await emptyDatabase()
  await migrate(pool, { known: [table] })
  const holder = await pool.connect()
  await holder.query('begin')
  await holder.query("insert into things values (0, 'held')")
  // The first one waits for the holder inside `create index concurrently`, and the second for the first.
  const both = Promise.all([migrate(pool, { known }), migrate(pool, { known })])
  const asking = sql`
    select from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
      and query like '%pg_try_advisory_lock%'`
  await poll(async () => (await many(pool, asking)).length)
  await holder.query('rollback')
  holder.release()
  assert.deepEqual((await both).map(({ length }) => length).sort(), [0, 2])
  assert.deepEqual(await indexes(pool), bothValid)
})

test('a failing migration rolls back those in its transaction, and keeps an index built before', async () => {
  const pool = await emptyDatabase()
  const broken = migration('0004_broken.sql', 'alter table nothing add column x int;')
  await assert.rejects(migrate(pool, { known: [...known, broken] }), /nothing/)
  assert.deepEqual(await applied(pool), ['0001_things.sql', '0002_things_by_name.sql'])
  assert.match((await migrationFault(pool)) ?? '', /differs from/)
})

test('a statement that could not be repeated after a crash is refused outside a transaction', async () => {
  const pool = await emptyDatabase()
  const unsafe = migration('0002_unsafe.sql', '-- no transaction\nupdate things set id = id + 1;\n')
  await assert.rejects(migrate(pool, { known: [table, unsafe] }), /not safe to repeat: update things/)
  assert.deepEqual(await applied(pool), ['0001_things.sql'])
})

test('while a migration waits for a table, requests do not wait behind it', async () => {
  const pool = await emptyDatabase()
  await migrate(pool, { known: [table, index] })
  const busy = await pool.connect()
  await busy.query('begin')
  await busy.query('select from things')
  const migrating = migrate(pool, { known })
  await poll(
    async () =>
      (
        await many(
          pool,
          sql`select from pg_stat_activity where query like 'lock table%' and datname = current_database()`,
        )
      ).length,
  )
  // Behind a lock that is waited for without an end, these would wait for it.
  for (let request = 0; request < 5; request++) await many(pool, sql`select from things`)
  assert.deepEqual(await applied(pool), ['0001_things.sql', '0002_things_by_name.sql'])
  await busy.query('commit')
  busy.release()
  assert.deepEqual(await migrating, ['0003_things_color.sql'])
})

test('a migration that cannot get its tables in time says who uses them, and changes nothing', async () => {
  const pool = await emptyDatabase()
  await migrate(pool, { known: [table, index] })
  const busy = await pool.connect()
  await busy.query("set application_name = 'a long report'")
  await busy.query('begin')
  await busy.query('select from things')
  await assert.rejects(migrate(pool, { known, locks: { limitMs: 500, say: () => {} } }), {
    name: 'LockWaitEnded',
    message: /^gave up after 0\.5 s waiting for the tables things, held by pid \d+ \(application_name a long report, /,
  })
  assert.deepEqual(await applied(pool), ['0001_things.sql', '0002_things_by_name.sql'])
  await busy.query('rollback')
  busy.release()
})

/** Tables that a transaction keeps others from reading or writing, each with its strongest lock. */
const lockedBy = async (tx: Db): Promise<[string, string][]> => {
  const rows = await many<{ name: string; mode: string }>(
    tx,
    sql`
    select distinct on (relname) relname as name, mode from pg_locks join pg_class c on c.oid = relation
    join unnest(array['AccessExclusiveLock', 'ExclusiveLock', 'ShareRowExclusiveLock', 'ShareLock', 'RowExclusiveLock'])
      with ordinality as strength (mode, place) using (mode)
    where pid = pg_backend_pid() and granted and relkind in ('r', 'p')
      and relnamespace = current_schema()::regnamespace and relname <> 'migrations'
    order by relname, place`,
  )
  return rows.map(({ name, mode }) => [name, mode])
}

test('a migration locks the tables that it names, and none that it only mentions', async () => {
  const pool = await emptyDatabase()
  const others = migration('0002_others.sql', 'create table others (id int primary key); create table idle (id int);')
  const next = migration(
    '0091_reference.sql',
    `-- locks: things
-- locks writes: others
-- Nothing changes for idle.
alter table things add column other int references others;
-- locks: idle
`,
  )
  await migrate(pool, { known: [table, others] })
  let locked: [string, string][] = []
  const finish = async (tx: Db) => {
    locked = await lockedBy(tx)
  }
  await migrate(pool, { known: [table, others, next], finish })
  assert.deepEqual(locked, [
    ['others', 'ShareRowExclusiveLock'],
    ['things', 'AccessExclusiveLock'],
  ])
})

test('a migration that does not say which tables it locks is refused before anything is applied', async () => {
  const pool = await emptyDatabase()
  const silent = migration('0091_silent.sql', '-- For later.\nselect 1;\n-- locks: none\n')
  await assert.rejects(migrate(pool, { known: [table, silent] }), /^Error: 0091_silent\.sql does not say which tables/)
  assert.deepEqual(await applied(pool), [])
  const none = migration('0091_silent.sql', '-- For later.\n-- locks: none\nselect 1;\n')
  assert.deepEqual(await migrate(pool, { known: [table, none] }), ['0001_things.sql', '0091_silent.sql'])
})

test('every migration names all tables that PostgreSQL locks for it', async () => {
  const pool = await emptyDatabase()
  const all = await readMigrations()
  const released = all.filter(({ name }) => name < '0043')
  await migrate(pool, { known: released })
  for (const next of all.slice(released.length)) {
    if (next.text.startsWith('-- no transaction\n')) continue
    const found = await transaction(pool, async (tx) => {
      const before = await tables(tx)
      await tx.query({ text: next.text })
      return (await lockedBy(tx)).filter(([name]) => before.includes(name))
    })
    for (const [name, mode] of found) {
      const isNamed =
        locksTable(next, name, 'access exclusive') ||
        (!['AccessExclusiveLock', 'ExclusiveLock'].includes(mode) && locksTable(next, name, 'share row exclusive'))
      assert.ok(isNamed, `${next.name} takes ${mode} on ${name} and does not say so`)
    }
  }
})

const tables = async (db: Db) =>
  (
    await many<{ name: string }>(
      db,
      sql`select relname as name from pg_class where relnamespace = current_schema()::regnamespace and relkind = 'r'`,
    )
  ).map(({ name }) => name)
