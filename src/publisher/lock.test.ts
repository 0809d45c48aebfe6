import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import { newDatabase } from '../../test/harness/control_plane.ts'
import { poll } from '../../test/harness/poll.ts'
import { type DbPool, one, openPool } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { type Cell, defaultCell } from '../operations/placement.ts'
import { type HoldPublisherLock, publisherLocks } from './lock.ts'

const url = await newDatabase()
const never = new AbortController().signal

const pools: DbPool[] = []
// At the end of the file: a test that fails frees its locks first.
after(() => Promise.all(pools.map((pool) => pool.end())))
function open(): DbPool {
  const pool = openPool({ url, poolSize: 2, connectTimeoutMs: 10_000, statementTimeoutMs: 10_000 }, () => {})
  pools.push(pool)
  return pool
}
const pidOf = async (pool: DbPool) => (await one<{ pid: number }>(pool, sql`select pg_backend_pid() as pid`)).pid

/** Resolves when the lock is held; `end` ends the work. */
async function hold(t: TestContext, holdLock: HoldPublisherLock, giveUp: AbortSignal, cell: Cell = defaultCell) {
  const { promise: over, resolve: end } = Promise.withResolvers<void>()
  // Even after a failed check: others wait for the lock.
  t.after(() => end())
  const { promise: begun, resolve: begin } = Promise.withResolvers<boolean>()
  let held = Promise.resolve()
  // PostgreSQL frees the lock of a closed connection a moment later.
  await poll(() => {
    held = holdLock(cell, giveUp, async () => {
      begin(true)
      await over
    })
    return Promise.race([begun, held.then(() => false)])
  })
  return { held, end }
}

async function tryLock(holdLock: HoldPublisherLock, cell: Cell = defaultCell): Promise<boolean> {
  let isLocked = false
  await holdLock(cell, never, async () => {
    isLocked = true
  })
  return isLocked
}

test('a standby asks for the lock again and again on one connection, and leaves it in the pool', async (t) => {
  const { held, end } = await hold(t, publisherLocks(open()), never)
  const pool = open()
  const standby = publisherLocks(pool)
  const pid = await pidOf(pool)
  for (let time = 0; time < 5; time++) assert.equal(await tryLock(standby), false)
  assert.equal(await pidOf(pool), pid)
  assert.deepEqual(pool.connections(), { total: 1, idle: 1, waiting: 0 })
  end()
  await held
  await poll(() => tryLock(standby))
})

test('giving up frees the lock for another process even while the work hangs', async (t) => {
  const giveUp = new AbortController()
  const { held, end } = await hold(t, publisherLocks(open()), giveUp.signal)
  const standby = publisherLocks(open())
  assert.equal(await tryLock(standby), false)
  giveUp.abort(new Error('no NATS'))
  await assert.rejects(held, /no NATS/)
  await poll(() => tryLock(standby))
  end()
})

test('one connection holds the locks of all cells of a process, and gives up one without the others', async (t) => {
  const pool = open()
  const [locks, standby] = [publisherLocks(pool), publisherLocks(open())]
  const cells = Array.from({ length: 5 }, (_, index) => ({ id: index + 2, name: `cell-${index}` }))
  const holds = []
  for (const cell of cells) holds.push(await hold(t, locks, never, cell))
  assert.equal(pool.connections().total, 1)
  const [first, second] = cells as [Cell, Cell]
  assert.equal(await tryLock(standby, first), false)
  holds[0]?.end()
  await holds[0]?.held
  await poll(() => tryLock(standby, first))
  assert.equal(await tryLock(standby, second), false)
  assert.equal(await tryLock(standby), true)
})

test('work that goes on after its lock was given up cannot use the session', async () => {
  const giveUp = new AbortController()
  const { promise: resumed, resolve: resume } = Promise.withResolvers<void>()
  const { promise: asked, resolve: ask } = Promise.withResolvers<unknown>()
  const locks = publisherLocks(open())
  const other = { id: 9, name: 'other' }
  await locks(other, never, async () => {
    const held = locks(defaultCell, giveUp.signal, async (db) => {
      giveUp.abort(new Error('no NATS'))
      await resumed
      ask(await one(db, sql`select 1 as answered`).catch((error) => error.message))
    })
    await assert.rejects(held, /no NATS/)
    resume()
    assert.equal(await asked, 'the publisher lock was given up meanwhile')
  })
})

test('when the session ends, the work of every cell is lost, and the locks are free', async (t) => {
  const pool = open()
  const locks = publisherLocks(pool)
  const cells = [defaultCell, { id: 7, name: 'seven' }]
  const lost = cells.map((cell) =>
    assert.rejects(
      hold(t, locks, never, cell).then(({ held }) => held),
      /has ended/,
    ),
  )
  const standby = publisherLocks(open())
  await poll(async () => !(await tryLock(standby)) && !(await tryLock(standby, cells[1])))
  const watcher = open()
  await one(
    watcher,
    sql`
    select pg_terminate_backend(pid) from pg_locks
    where locktype = 'advisory' and classid = 81 and objid = 7 and pid <> pg_backend_pid()
      and database = (select oid from pg_database where datname = current_database())`,
  )
  await Promise.all(lost)
  for (const cell of cells) await poll(() => tryLock(standby, cell))
})
