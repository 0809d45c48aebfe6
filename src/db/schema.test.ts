import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { newDatabase } from '../../test/harness/control_plane.ts'
import { many, openPool } from './pool.ts'
import { sql } from './sql.ts'

const db = openPool(
  { url: await newDatabase(), poolSize: 2, connectTimeoutMs: 60_000, statementTimeoutMs: 60_000 },
  () => {},
)
after(() => db.end())

test('every foreign key has a name that a migration gave it', async () => {
  const unnamed = await many(
    db,
    sql`select conrelid::regclass::text as table, conname from pg_constraint where contype = 'f' and conname like '%\\_fkey%'`,
  )
  assert.deepEqual(unnamed, [])
})
