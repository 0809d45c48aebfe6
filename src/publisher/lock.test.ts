import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import { newDatabase } from '../../test/harness/control_plane.ts'
import { poll } from '../../test/harness/poll.ts'
import { type DbPool, one, openPool } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { systemTiming } from '../kernel/system_timing.ts'
import type { Timing } from '../kernel/timing.ts'
import { type Cell, defaultCell } from '../operations/placement.ts'
import { type HoldPublisherLock, publisherLocks } from './lock.ts'

const url = await newDatabase()
const never = new AbortController().signal
/** Twenty times as fast, so that nothing has to be waited for. */
const quick: Timing = {
  ...systemTiming,
  elapsed: () => systemTiming.elapsed() * 20,
  after: (ms, work) => systemTiming.after(ms / 20, work),
}

const pools: DbPool[] = []
// At the end of the file: a test that fails frees its locks first.
after(() => Promise.all(pools.map((pool) => pool.end())))
function open(): DbPool {
  const pool = openPool({ url, poolSize: 2, connectTimeoutMs: 60_000, statementTimeoutMs: 60_000 }, () => {})
  pools.push(pool)
  return pool
}

/** Resolves when the lock is held; `end` ends the work. */
async function hold(t: TestContext, holdLock: HoldPublisherLock, giveUp: AbortSignal, cell: Cell = defaultCell) {
  const { promise: over, resolve: end } = Promise.withResolvers<void>()
  // Even after a failed check: others wait for the lock.
  t.after(() => end())
  const { promise: begun, resolve: begin } = Promise.withResolvers<boolean>()
  let held = Promise.resolve()
  // PostgreSQL frees the lock of a closed connection a moment later.
  await poll(() => {
    held = holdLock(cell, { leave: never, giveUp }, async () => {
      begin(true)
      await over
    })
    return Promise.race([begun, held.then(() => false)])
  })
  return { held, end }
}

async function tryLock(holdLock: HoldPublisherLock, cell: Cell = defaultCell): Promise<boolean> {
  let isLocked = false
  await holdLock(cell, { leave: never, giveUp: never }, async () => {
    isLocked = true
  })
  return isLocked
}

test('a standby waits for its turn on one connection, and closes it when it no longer waits', async (t) => {
  const { held, end } = await hold(t, publisherLocks(open(), quick), never)
  const pool = open()
  const standby = publisherLocks(pool, quick)
  for (let time = 0; time < 3; time++) assert.equal(await tryLock(standby), false)
  await poll(() => pool.connections().total === 0)
  const leaving = new AbortController()
  const waiting = standby(defaultCell, { leave: leaving.signal, giveUp: never }, async () => {})
  await poll(() => pool.connections().total === 1)
  leaving.abort()
  await waiting
  end()
  await held
  await poll(() => tryLock(standby))
})

test('giving up frees the lock for another process even while the work hangs', async (t) => {
  const giveUp = new AbortController()
  const { held, end } = await hold(t, publisherLocks(open(), quick), giveUp.signal)
  const standby = publisherLocks(open(), quick)
  assert.equal(await tryLock(standby), false)
  giveUp.abort(new Error('no NATS'))
  await assert.rejects(held, /no NATS/)
  await poll(() => tryLock(standby))
  end()
})

test('one connection holds the locks of all cells of a process, and gives up one without the others', async (t) => {
  const pool = open()
  const [locks, standby] = [publisherLocks(pool, quick), publisherLocks(open(), quick)]
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
  const locks = publisherLocks(open(), quick)
  const other = { id: 9, name: 'other' }
  await locks(other, { leave: never, giveUp: never }, async () => {
    const held = locks(defaultCell, { leave: never, giveUp: giveUp.signal }, async (db) => {
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
  const locks = publisherLocks(pool, quick)
  const cells = [defaultCell, { id: 7, name: 'seven' }]
  const lost = cells.map((cell) =>
    assert.rejects(
      hold(t, locks, never, cell).then(({ held }) => held),
      /has ended/,
    ),
  )
  const standby = publisherLocks(open(), quick)
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

/** Publishes in these cells whenever it may, as a process does. */
function startPublishing(t: TestContext, cells: readonly Cell[], pool = open()) {
  const holdLock = publisherLocks(pool, quick)
  const leave = new AbortController()
  const active = new Set<number>()
  const loops = cells.map(async (cell) => {
    while (!leave.signal.aborted)
      await holdLock(cell, { leave: leave.signal, giveUp: never }, async (_, end) => {
        assert.ok(!publishing.has(cell.id), `two publish in ${cell.name}`)
        publishing.add(cell.id)
        active.add(cell.id)
        const over = AbortSignal.any([leave.signal, end])
        await new Promise((resolve) => over.addEventListener('abort', resolve))
        active.delete(cell.id)
        publishing.delete(cell.id)
      }).catch(() => {})
  })
  const stop = async () => {
    leave.abort()
    await Promise.all(loops)
  }
  t.after(stop)
  return { active, stop }
}
const publishing = new Set<number>()

test('processes share the cells, and when one ends, the others take what it had', async (t) => {
  const cells = Array.from({ length: 7 }, (_, index) => ({ id: index + 20, name: `cell-${index}` }))
  const first = startPublishing(t, cells)
  await poll(() => first.active.size === 7)
  const second = startPublishing(t, cells)
  await poll(() => first.active.size === 4 && second.active.size === 3)
  const third = startPublishing(t, cells)
  await poll(() => [first, second, third].every(({ active }) => active.size >= 2) && publishing.size === 7)
  await first.stop()
  await poll(() => second.active.size >= 3 && third.active.size >= 3 && publishing.size === 7)
  await second.stop()
  await poll(() => third.active.size === 7)
})

test('a process that has just failed takes only what no other process takes', async (t) => {
  const cells = Array.from({ length: 4 }, (_, index) => ({ id: index + 40, name: `cell-${index}` }))
  // Its failure stays recent, however slow the machine is.
  const failing = publisherLocks(open(), { ...quick, elapsed: () => 0 })
  // The one that a process with too many leaves first.
  const cell = cells.at(-1) ?? defaultCell
  await poll(() =>
    failing(cell, { leave: never, giveUp: never }, () => Promise.reject(new Error('no stream'))).then(
      () => false,
      () => true,
    ),
  )
  const sound = startPublishing(t, cells)
  await poll(() => sound.active.size === 4)
  for (let time = 0; time < 4; time++) assert.equal(await tryLock(failing, cell), false)
  assert.equal(sound.active.size, 4)
})
