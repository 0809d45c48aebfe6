import assert from 'node:assert/strict'
import { after, before, beforeEach, test } from 'node:test'
import pg from 'pg'
import { newDatabase } from '../../test/harness/control_plane.ts'
import { poll } from '../../test/harness/poll.ts'
import { isUnavailable, OutcomeUnknown } from './failures.ts'
import { type DbPool, later, many, one, openPool, run } from './pool.ts'
import { sql } from './sql.ts'
import { changeAtOnce, session, snapshot, transaction } from './transaction.ts'

let db: DbPool
let observer: pg.Client
before(async () => {
  const url = await newDatabase()
  db = openPool({ url, poolSize: 1, connectTimeoutMs: 10_000, statementTimeoutMs: 1_000 }, () => {})
  observer = new pg.Client({ connectionString: url })
  await observer.connect()
  await observer.query('create table notes (id int primary key, text text)')
})
after(async () => {
  await observer.end()
  await db.end()
})
beforeEach(() => observer.query('truncate notes'))

const insert = (id: number) => sql`insert into notes values (${id}, 'a')`
const committed = async () => (await observer.query('select id from notes order by id')).rows.map(({ id }) => id)

test('what is sent later is done in its place, and committed with the rest', async () => {
  const seen = await transaction(db, async (tx) => {
    await later(tx, insert(1))
    await later(tx, sql`update notes set text = 'b'`)
    const rows = await many<{ text: string }>(tx, sql`select text from notes`)
    await later(tx, insert(2))
    return rows
  })
  assert.deepEqual(seen, [{ text: 'b' }])
  assert.deepEqual(await committed(), [1, 2])
})

test('a transaction of which nothing is waited for is one round trip, and one of nothing is none', async () => {
  assert.equal(await tripsOf(() => transaction(db, (tx) => later(tx, insert(1)))), 1)
  assert.deepEqual(await committed(), [1])
  assert.equal(await tripsOf(() => transaction(db, async () => {})), 0)
})

test('when a statement that is not awaited fails, nothing is committed, and the failure is its own', async () => {
  for (const behind of [0, 1]) {
    const failing = transaction(db, async (tx) => {
      await run(tx, insert(1))
      await later(tx, insert(1))
      for (let n = 0; n < behind; n++) await later(tx, insert(7))
    })
    await assert.rejects(failing, { code: '23505', constraint: 'notes_pkey' })
    assert.deepEqual(await committed(), [])
  }
  await transaction(db, (tx) => later(tx, insert(3)))
  assert.deepEqual(await committed(), [3])
})

test('when it runs out of its time, it is known that nothing was committed', async () => {
  const failing = transaction(db, async (tx) => {
    await later(tx, insert(1))
    await later(tx, sql`select pg_sleep(5)`)
  })
  await assert.rejects(failing, (error: Error) => isUnavailable(error) && !(error instanceof OutcomeUnknown))
  assert.deepEqual(await committed(), [])
})

test('when the server ends the connection before commit is reached, nothing was committed', async () => {
  const asleep = `select pid from pg_stat_activity where wait_event = 'PgSleep'`
  let ended: Promise<unknown> = Promise.resolve()
  const failing = transaction(db, async (tx) => {
    const { pid } = await one<{ pid: number }>(tx, sql`select pg_backend_pid() as pid`)
    await later(tx, insert(1))
    await later(tx, sql`set local statement_timeout = 0`)
    await later(tx, sql`select pg_sleep(6)`)
    ended = poll(
      () => observer.query(`select pg_terminate_backend(pid) from (${asleep}) s where pid = $1`, [pid]),
      ({ rows }) => rows.length > 0,
    )
  })
  await assert.rejects(failing, (error: Error) => isUnavailable(error) && !(error instanceof OutcomeUnknown))
  await ended
  assert.deepEqual(await committed(), [])
})

test('a change at once is one round trip, and committed when it is answered', async () => {
  const change = () => changeAtOnce<{ id: number }>(db, sql`insert into notes values (1, 'a') returning id`)
  assert.equal(await tripsOf(async () => assert.deepEqual(await change(), [{ id: 1 }])), 1)
  assert.deepEqual(await committed(), [1])
  await assert.rejects(change(), { code: '23505' })
  assert.deepEqual(await changeAtOnce(db, sql`select id from notes`), [{ id: 1 }])
})

test('the outcome of a change at once without an answer is unknown, unless PostgreSQL says that it failed', async () => {
  const isClear = (error: Error) => isUnavailable(error) && !(error instanceof OutcomeUnknown)
  await assert.rejects(changeAtOnce(db, sql`insert into notes select 1, pg_sleep(5)::text`), isClear)
  assert.deepEqual(await committed(), [])
  const client = await db.connect()
  const { stream } = (client as unknown as { connection: { stream: { destroy(): void } } }).connection
  const failing = changeAtOnce({ ...db, connect: async () => client }, insert(1))
  setImmediate(() => stream.destroy())
  await assert.rejects(failing, OutcomeUnknown)
  await run(db, sql`select 1`)
})

test('a constraint that is checked at the end refuses a change at once', async () => {
  await observer.query('create table if not exists deferred_notes (id int unique deferrable initially deferred)')
  await observer.query('insert into deferred_notes values (1)')
  await assert.rejects(changeAtOnce(db, sql`insert into deferred_notes values (1)`), { code: '23505' })
  assert.deepEqual(await changeAtOnce(db, sql`insert into deferred_notes values (2) returning id`), [{ id: 2 }])
})

test('each statement has its own time: together they may take longer than one', async () => {
  await transaction(db, async (tx) => {
    for (let n = 0; n < 4; n++) await later(tx, sql`select pg_sleep(0.6)`)
    await later(tx, insert(1))
  })
  assert.deepEqual(await committed(), [1])
})

test('work that catches a failed statement and goes on learns that nothing was committed', async () => {
  const failing = transaction(db, async (tx) => {
    await run(tx, insert(1))
    await run(tx, insert(1)).catch(() => {})
  })
  await assert.rejects(failing, /COMMIT was answered with ROLLBACK/)
  assert.deepEqual(await committed(), [])
})

test('what is refused before anything was sent leaves the connection as it was', async () => {
  const refused = transaction(db, async (tx) => {
    await later(tx, insert(1))
    throw new Error('refused')
  })
  await assert.rejects(refused, /refused/)
  await run(db, insert(2))
  assert.deepEqual(await committed(), [2])
})

test('a statement behind another sees what others committed while that one waited', async () => {
  await observer.query(`insert into notes values (1, 'before')`)
  await observer.query('begin')
  await observer.query(`update notes set text = 'after' where id = 1`)
  const waiting = transaction(db, async (tx) => {
    await later(tx, sql`select from notes where id = 1 for update`)
    return one<{ text: string }>(tx, sql`select text from notes where id = 1`)
  })
  const isWaiting = "select pid from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
  await poll(
    () => observer.query(isWaiting).finally(() => observer.query('select pg_stat_clear_snapshot()')),
    ({ rows }) => rows.length > 0,
  )
  await observer.query('commit')
  assert.deepEqual(await waiting, { text: 'after' })
})

test('a statement that cannot be prepared fails each time, and is prepared when it can be', async () => {
  const read = () => transaction(db, (tx) => many(tx, sql`select id from to_come`))
  for (let n = 0; n < 2; n++) await assert.rejects(read(), { code: '42P01' })
  await observer.query('create table to_come (id int)')
  for (let n = 0; n < 2; n++) assert.deepEqual(await read(), [])
})

test('a statement that was skipped because of another is prepared when it is first run', async () => {
  const skipped = sql`update notes set text = 'skipped'`
  const failing = transaction(db, async (tx) => {
    await later(tx, sql`select 1 / ${0}::int`)
    await later(tx, skipped)
  })
  await assert.rejects(failing, { code: '22012' })
  await transaction(db, (tx) => run(tx, skipped))
})

test('when a transaction cannot begin, nothing behind it is done', async () => {
  const failing = session(db, (_, inTransaction) => inTransaction('begin at once', (tx) => run(tx, insert(1))))
  await assert.rejects(failing, { code: '42601' })
  assert.deepEqual(await committed(), [])
})

test('a snapshot stays as it was, and several transactions can share a connection', async () => {
  await observer.query(`insert into notes values (1, 'a')`)
  const count = sql`select count(*) from notes`
  await snapshot(db, async (tx) => {
    assert.deepEqual(await one(tx, count), { count: 1 })
    await observer.query(`insert into notes values (2, 'a')`)
    assert.deepEqual(await one(tx, count), { count: 1 })
  })
  await session(db, async (_, inTransaction) => {
    await inTransaction('begin', (tx) => later(tx, insert(3)))
    await assert.rejects(inTransaction('begin', (tx) => run(tx, insert(3))))
    await inTransaction('begin', (tx) => run(tx, insert(4)))
  })
  assert.deepEqual(await committed(), [1, 2, 3, 4])
})

/** How often the only connection of the pool was ready for the next statements. */
async function tripsOf(work: () => Promise<unknown>): Promise<number> {
  const client = await db.connect()
  let trips = 0
  const count = () => trips++
  const { connection } = client as unknown as { connection: NodeJS.EventEmitter }
  connection.on('readyForQuery', count)
  client.release()
  await work()
  connection.off('readyForQuery', count)
  return trips
}
