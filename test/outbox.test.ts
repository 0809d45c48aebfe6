import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import pg from 'pg'
import { openPool } from '../src/db/pool.ts'
import { together, transaction } from '../src/db/transaction.ts'
import type { RecordKey } from '../src/distribution/records.ts'
import { newId, newUuid } from '../src/kernel/ids.ts'
import { readOutbox, settledGeneration, writeOutbox } from '../src/operations/outbox.ts'
import { defaultCell } from '../src/operations/placement.ts'
import { newDatabase, type Scope, startControlPlane } from './harness/control_plane.ts'
import { nothingWasADefect } from './harness/defects.ts'
import { make, newHttpsEdge, newRoute } from './harness/fixtures.ts'
import { poll } from './harness/poll.ts'
import { sized } from './harness/thorough.ts'
import { followSettled } from './outbox/readers.ts'
import { outboxRounds } from './outbox/rounds.ts'

const plane = await startControlPlane({ after })

// `npm run drill -- outbox` does a minute of it.
const seconds = sized(5, 10)
test(`eight writers for ${seconds} s, with rollbacks and late commits`, async (t) => {
  const { faults, settled, naive, rows, figures } = await outboxRounds(t, plane, seconds * 1_000)
  t.diagnostic(figures)
  await t.test('every acknowledged change has its outbox row and its audit event, and there are no others', () => {
    assert.deepEqual(faults, [])
    assert.ok(rows > 250, `${rows} rows`)
  })
  await t.test('a reader of readOutbox() misses nothing, repeats nothing and never goes back', () => {
    assert.deepEqual([settled.missed, settled.repeated, settled.wentBack], [0, 0, []])
  })
  // Without this, the one before could be blind: it shows that there were late commits to miss.
  await t.test('a reader that goes by the highest generation it sees misses late commits', () => {
    assert.ok(naive.missed > 10, `${naive.missed} missed`)
  })
})

test('a change of many records is read as a whole, however small the pages', async () => {
  const admin = await plane.newAccount()
  const edge = await newHttpsEdge(admin)
  for (let count = 0; count < 10; count++) await newRoute(admin, {}, edge)
  const generation = (await admin('DELETE', edge.uri)).headers.get('service-generation')
  for (const pageSize of [1, 3, 10]) {
    const { rows } = await followSettled(plane.db, () => Number(generation), pageSize)
    assert.equal(rows.filter((row) => row.startsWith(`${generation} `)).length, 11, `pages of ${pageSize}`)
  }
})

/** A database of the test's own, and connections that the test may leave in any state. */
async function newOutbox(scope: Scope) {
  const url = await newDatabase()
  const db = openPool({ url, poolSize: 2, connectTimeoutMs: 60_000, statementTimeoutMs: 60_000 }, () => {})
  const connections: pg.Client[] = []
  scope.after(async () => {
    for (const connection of connections) await connection.end()
    await db.end()
  })
  return {
    db,
    /** Begins a transaction that has taken a generation. */
    async begin() {
      const connection = new pg.Client({ connectionString: url })
      connection.on('error', () => {})
      connections.push(connection)
      await connection.connect()
      await connection.query('begin')
      const { rows } = await connection.query('select next_generation() as generation, pg_backend_pid() as pid')
      return { connection, generation: Number(rows[0].generation), pid: Number(rows[0].pid) }
    },
    settled: async () => (await readOutbox(db, defaultCell, 0, 10)).settled,
  }
}

test('an uncommitted generation holds the reader back, but only until it ends', async (t) => {
  const { begin, settled } = await newOutbox(t)
  const [early, late] = [await begin(), await begin()]
  assert.equal(late.generation, early.generation + 1)
  await late.connection.query('commit')
  assert.ok((await settled()) < early.generation)
  await early.connection.query('rollback')
  assert.equal(await settled(), late.generation)
})

test('a change set that is still being made holds no other account back, and is published as a whole', async (t) => {
  const { db } = await newOutbox(t)
  const read = async () => (await readOutbox(db, defaultCell, 0, 10)).rows.map(({ key }) => key)
  const generations: number[] = []
  await together(
    db,
    async (on) => {
      const write = (key: RecordKey) => transaction(on, (tx) => writeOutbox(tx, newUuid(), [key]))
      await write(`policy.${newId('ipp')}`)
      await write(`policy.${newId('ipp')}`)
      const key: RecordKey = `policy.${newId('ipp')}`
      const theirs = await transaction(db, (tx) => writeOutbox(tx, newUuid(), [key]))
      assert.deepEqual(await read(), [key], 'it does not wait')
      assert.equal(await settledGeneration(db), theirs)
      generations.push(theirs)
    },
    'late',
  )
  const { rows } = await readOutbox(db, defaultCell, generations[0] ?? 0, 10)
  assert.equal(rows.length, 2, 'they come later, with one number')
  assert.equal(new Set(rows.map(({ generation }) => generation)).size, 1)
})

test('a connection that dies mid-transaction does not hold the reader back', async (t) => {
  const { db, begin, settled } = await newOutbox(t)
  const { pid, generation } = await begin()
  assert.ok((await settled()) < generation)
  await db.query({ text: 'select pg_terminate_backend($1)', values: [pid] })
  await poll(settled, (reached) => reached >= generation)
})

test('a transaction in another database of the same server does not hold this one back', async (t) => {
  const [one, two] = [await newOutbox(t), await newOutbox(t)]
  await one.begin()
  const { connection, generation } = await two.begin()
  await connection.query('commit')
  assert.equal(await two.settled(), generation)
})

test('a change that does not concern edges has an audit event but no generation', async () => {
  const admin = await plane.newAccount()
  const created = await admin('POST', '/bot_users', { name: 'b' })
  assert.equal(created.headers.get('service-generation'), null)
  const { id } = await make(admin, '/bot_users', { name: 'c' })
  assert.equal((await admin('GET', `/audit_events?resource_id=${id}`)).body.audit_events.length, 1)
})

nothingWasADefect(plane)
