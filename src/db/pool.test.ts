import assert from 'node:assert/strict'
import { test } from 'node:test'
import { newDatabase } from '../../test/harness/control_plane.ts'
import { many, openPool, toRfc3339 } from './pool.ts'
import { sql } from './sql.ts'

const times = {
  '2026-11-15 02:00:00+00': '2026-11-15T02:00:00.000Z',
  '2026-11-15 02:00:00.1+00': '2026-11-15T02:00:00.100Z',
  '2026-11-15 02:00:00.12+00': '2026-11-15T02:00:00.120Z',
  '2026-11-15 02:00:00.123+00': '2026-11-15T02:00:00.123Z',
  '2026-11-15 02:00:00.001+00': '2026-11-15T02:00:00.001Z',
  '2026-11-15 02:00:00.123456+00': '2026-11-15T02:00:00.123Z',
}

test("PostgreSQL's text for a time becomes RFC 3339 with milliseconds", () => {
  for (const [text, expected] of Object.entries(times)) {
    assert.equal(toRfc3339(text), expected)
    assert.equal(new Date(toRfc3339(text)).toISOString(), expected)
  }
})

test('times and large numbers arrive in that form, also from a database with a time zone of its own', async (t) => {
  const url = await newDatabase()
  const pool = openPool({ url, poolSize: 2, connectTimeoutMs: 10_000, statementTimeoutMs: 10_000 }, () => {})
  t.after(() => pool.end())
  await pool.query({ text: `alter database ${new URL(url).pathname.slice(1)} set timezone = 'Asia/Kolkata'` })
  const later = openPool({ url, poolSize: 2, connectTimeoutMs: 10_000, statementTimeoutMs: 10_000 }, () => {})
  t.after(() => later.end())
  const [row] = await many<{ at: string; counter: number }>(
    later,
    sql`select '2026-07-01 04:30:00.120+05:30'::timestamptz as at, 9007199254740991::bigint as counter`,
  )
  assert.deepEqual(row, { at: '2026-06-30T23:00:00.120Z', counter: Number.MAX_SAFE_INTEGER })
})

test('no connection lets PostgreSQL compile statements, which would take seconds for each that reads a whole table', async (t) => {
  const settings = { url: await newDatabase(), poolSize: 1, connectTimeoutMs: 10_000, statementTimeoutMs: 10_000 }
  const pool = openPool(settings, () => {})
  t.after(() => pool.end())
  for (const db of [pool, pool.lookUps])
    assert.deepEqual(await many(db, sql`select current_setting('jit') as jit`), [{ jit: 'off' }])
})

test('arrays arrive as they were sent, with any characters in them', async (t) => {
  const settings = { url: await newDatabase(), poolSize: 2, connectTimeoutMs: 10_000, statementTimeoutMs: 10_000 }
  const pool = openPool(settings, () => {})
  t.after(() => pool.end())
  const plain = [[], ['*'], ['api_keys.*', 'a b'], ['']]
  for (const texts of [
    ...plain,
    ['a,b', 'c'],
    ['{', '}'],
    ['"', '\\', "'"],
    ['NULL', 'null'],
    [null, 'a'],
    ['ä', '漢'],
  ]) {
    const [row] = await many<{ texts: string[] }>(pool, sql`select ${texts}::text[] as texts`)
    assert.deepEqual(row?.texts, texts)
  }
  for (const cidrs of [[], ['192.0.2.0/24'], ['192.0.2.0/24', '2001:db8::/32']]) {
    const [row] = await many<{ cidrs: string[] }>(pool, sql`select ${cidrs}::cidr[] as cidrs`)
    assert.deepEqual(row?.cidrs, cidrs)
  }
})

test('a statement that was prepared while its table was empty goes by the index when it has filled up', async (t) => {
  const url = await newDatabase()
  const pool = openPool({ url, poolSize: 1, connectTimeoutMs: 10_000, statementTimeoutMs: 10_000 }, () => {})
  t.after(() => pool.end())
  // Without autovacuum, which would bring new statistics at some time.
  await pool.query({
    text: `create table parts (id int, owner int) with (autovacuum_enabled = off);
           create index parts_of_owner on parts (owner);
           analyze parts`,
  })
  const partsOf = (owner: number) => many(pool, sql`select id from parts where owner = ${owner}`)
  const rowsScanned = async () => {
    // What a transaction has read is counted when the connection is next idle, unless it says so itself.
    await pool.query({ text: 'select pg_stat_force_next_flush()' })
    const [row] = await many<{ read: number }>(
      pool,
      sql`select seq_tup_read as read from pg_stat_user_tables where relname = 'parts'`,
    )
    return row?.read
  }
  // From the sixth time on, PostgreSQL keeps the plan.
  for (let time = 0; time < 10; time++) await partsOf(1)
  await pool.query({ text: 'insert into parts select n, n from generate_series(1, 1000) n' })
  assert.deepEqual(await partsOf(1), [{ id: 1 }])
  assert.equal(await rowsScanned(), 0)
})
