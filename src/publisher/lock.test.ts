import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import { newDatabase } from '../../test/harness/control_plane.ts'
import { poll } from '../../test/harness/poll.ts'
import { type DbPool, one, openPool } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { holdingPublisherLock } from './lock.ts'

const url = await newDatabase()
const never = new AbortController().signal

function open(): DbPool {
  const pool = openPool({ url, poolSize: 2, connectTimeoutMs: 10_000, statementTimeoutMs: 10_000 }, () => {})
  after(() => pool.end())
  return pool
}
const pidOf = async (pool: DbPool) => (await one<{ pid: number }>(pool, sql`select pg_backend_pid() as pid`)).pid

/** Resolves when the lock is held; `end` ends the work. */
async function hold(t: TestContext, pool: DbPool, giveUp: AbortSignal) {
  const { promise: over, resolve: end } = Promise.withResolvers<void>()
  // Even after a failed check: others wait for the lock.
  t.after(() => end())
  const { promise: begun, resolve: begin } = Promise.withResolvers<boolean>()
  let held = Promise.resolve()
  // PostgreSQL frees the lock of a closed connection a moment later.
  await poll(() => {
    held = holdingPublisherLock(pool, giveUp, async () => {
      begin(true)
      await over
    })
    return Promise.race([begun, held.then(() => false)])
  })
  return { held, end }
}

async function tryLock(pool: DbPool): Promise<boolean> {
  let isLocked = false
  await holdingPublisherLock(pool, never, async () => {
    isLocked = true
  })
  return isLocked
}

test('a standby asks for the lock again and again on one connection, and leaves it in the pool', async (t) => {
  const { held, end } = await hold(t, open(), never)
  const standby = open()
  const pid = await pidOf(standby)
  for (let time = 0; time < 5; time++) assert.equal(await tryLock(standby), false)
  assert.equal(await pidOf(standby), pid)
  assert.deepEqual(standby.connections(), { total: 1, idle: 1, waiting: 0 })
  end()
  await held
  await poll(() => tryLock(standby))
})

test('giving up frees the lock for another process even while the work hangs', async (t) => {
  const giveUp = new AbortController()
  const { held, end } = await hold(t, open(), giveUp.signal)
  const standby = open()
  assert.equal(await tryLock(standby), false)
  giveUp.abort(new Error('no NATS'))
  await assert.rejects(held, /no NATS/)
  await poll(() => tryLock(standby))
  end()
})
