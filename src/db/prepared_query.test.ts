import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import pg from 'pg'
import { newDatabase } from '../../test/harness/control_plane.ts'
import { poll } from '../../test/harness/poll.ts'
import { type DbPool, maybeOne, openPool } from './pool.ts'
import { prepared } from './prepared_query.ts'
import { sql, toStatement } from './sql.ts'

let url: string
let db: DbPool
let client: pg.Client
before(async () => {
  url = await newDatabase()
  db = openPool({ url, poolSize: 3, connectTimeoutMs: 60_000, statementTimeoutMs: 60_000 }, () => {})
  client = new pg.Client({ connectionString: url })
  await client.connect()
})
after(async () => {
  await client.end()
  await db.end()
})

test('the rows are those of the driver itself, at the first execution and at later ones', async () => {
  const statement = toStatement(sql`
    select ${'text'}::text as text, ${7}::int as whole, ${'12345678901'}::bigint as large, ${true}::boolean as yes,
      null::uuid as nothing, ${['a', 'b "c"', null]}::text[] as list, ${Buffer.from('€')}::bytea as bytes,
      ${'{"a": [1]}'}::jsonb as json, '2026-11-15 02:00:00.12+00'::timestamptz as moment, '10.0.0.0/8'::cidr as range,
      1.5::numeric as number, n from generate_series(1, 3) n`)
  const own = (await client.query({ text: statement.text, values: statement.values as unknown[] })).rows
  for (let time = 1; time <= 3; time++) {
    const { rows } = await prepared(client, statement)
    assert.deepEqual(
      rows,
      own.map((row) => ({ ...row })),
      `time ${time}`,
    )
  }
})

test('no rows, and statements that return none, are empty each time', async () => {
  await client.query('create temp table notes (id int primary key)')
  const none = toStatement(sql`select 1 as one where false`)
  const insert = (id: number) => toStatement(sql`insert into notes values (${id})`)
  for (let id = 1; id <= 3; id++) {
    assert.deepEqual((await prepared(client, none)).rows, [])
    assert.deepEqual((await prepared(client, insert(id))).rows, [])
  }
  assert.equal((await client.query('select from notes')).rows.length, 3)
})

test('an error is the error of that statement alone, and the connection goes on', async () => {
  const divide = (by: number) => toStatement(sql`select 1 / ${by}::int as result`)
  assert.deepEqual((await prepared(client, divide(1))).rows, [{ result: 1 }])
  await assert.rejects(prepared(client, divide(0)), { code: '22012' })
  assert.deepEqual((await prepared(client, divide(1))).rows, [{ result: 1 }])
  await assert.rejects(prepared(client, toStatement(sql`select from no_such_table`)), { code: '42P01' })
})

test('when the columns of a table change, the statement is refused, never read by the old columns', async () => {
  await client.query('create temp table shapes (a int, b int)')
  await client.query('insert into shapes values (1, 2)')
  const statement = toStatement(sql`select * from shapes`)
  assert.deepEqual((await prepared(client, statement)).rows, [{ a: 1, b: 2 }])
  await prepared(client, statement)
  await client.query('alter table shapes drop column a')
  await assert.rejects(prepared(client, statement), /cached plan must not change result type/)
})

test('a value that cannot be parsed fails the statement, not the process', async () => {
  // Nothing of ours has this type.
  const point = 600 as Parameters<typeof pg.types.getTypeParser>[0]
  const parse = pg.types.getTypeParser(point)
  pg.types.setTypeParser(point, () => {
    throw new Error('unreadable')
  })
  try {
    const statement = toStatement(sql`select point(1, 2)`)
    await assert.rejects(prepared(client, statement), /unreadable/)
    await assert.rejects(prepared(client, statement), /unreadable/)
  } finally {
    pg.types.setTypeParser(point, parse)
  }
})

test('a thousand look-ups at once on shared connections each get their own row, and errors hit only their own', async () => {
  const answers = await Promise.allSettled(
    Array.from({ length: 1_000 }, (_, n) =>
      n % 10 === 3
        ? maybeOne<{ n: number }>(db.lookUps, sql`select ${n}::int / 0 as n`)
        : maybeOne<{ n: number }>(db.lookUps, sql`select ${n}::int as n`),
    ),
  )
  for (const [n, answer] of answers.entries()) {
    if (n % 10 === 3) assert.equal(answer.status, 'rejected')
    else assert.deepEqual(answer.status === 'fulfilled' && answer.value, { n })
  }
})

test('when the server ends the shared connections, waiting look-ups fail, and the next one connects again', async () => {
  const sleeping = maybeOne(db.lookUps, sql`select pg_sleep(30)`)
  const failed = assert.rejects(sleeping)
  await client.query(
    `select pg_terminate_backend(pid) from pg_stat_activity
     where datname = current_database() and pid <> pg_backend_pid() and application_name = 'gatehouse'`,
  )
  await failed
  // The other connection may not have seen its end yet.
  await poll(
    () => maybeOne(db.lookUps, sql`select 1 as one`).catch(({ message }: Error) => message),
    (row) => typeof row === 'object',
  )
})
