import assert from 'node:assert/strict'
import { test } from 'node:test'
import { newDatabase } from '../../test/harness/control_plane.ts'
import { openPool } from '../db/pool.ts'
import { snapshot } from '../db/transaction.ts'
import { contentsOf, differences } from './contents.ts'

test('contents differ by a row more, a row less, another value and a sequence that is behind, and by nothing else', async (t) => {
  const db = openPool(
    { url: await newDatabase(), poolSize: 2, connectTimeoutMs: 60_000, statementTimeoutMs: 60_000 },
    () => {},
  )
  t.after(() => db.end())
  const change = (text: string) => db.query({ text })
  const now = () => snapshot(db, contentsOf)
  await change(
    'create table things (id int generated always as identity, what text, at timestamptz default now(), raw bytea)',
  )
  await change("insert into things (what, raw) values ('one', '\\x01'), ('two', null), ('two', null)")
  const before = await now()
  assert.deepEqual(differences(before, await now()), [])
  // The same rows in another order.
  await change("update things set what = what where what = 'one'")
  assert.deepEqual(differences(before, await now()), [])
  await change("update things set raw = '\\x02' where what = 'one'")
  assert.deepEqual(differences(before, await now()), ['things has 3 rows, and not those that were backed up'])
  await change("update things set raw = '\\x01' where what = 'one'")
  assert.deepEqual(differences(before, await now()), [])
  await change("delete from things where what = 'two'")
  assert.deepEqual(differences(before, await now()), ['things has 1 rows instead of 3'])
  await change('alter sequence things_id_seq restart with 2')
  await change('drop table things cascade')
  assert.deepEqual(differences(before, await now()), [
    'things is missing',
    'the sequence things_id_seq is at nothing instead of 3',
  ])
  await change('create table more (id int)')
  assert.equal(differences(before, await now())[0], 'more is not in the backup')
})
