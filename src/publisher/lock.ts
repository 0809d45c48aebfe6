import { tryLockInSession } from '../db/advisory_locks.ts'
import { type Db, type DbPool, one, queryOn } from '../db/pool.ts'
import { sql } from '../db/sql.ts'

/**
 * Runs `work` if this process gets the publisher's lock, which one session of the database holds. Rejects as soon as that
 * session ends or `giveUp` aborts, even if `work` hangs: another process may then publish, and writes are fenced.
 */
export async function holdingPublisherLock(
  pool: DbPool,
  giveUp: AbortSignal,
  work: (db: Db, lost: AbortSignal) => Promise<void>,
): Promise<void> {
  const client = await pool.connect()
  const lost = new AbortController()
  const onEnd = () => lost.abort(new Error('the database session with the publisher lock has ended'))
  client.on('error', onEnd)
  client.on('end', onEnd)
  let isStandby = false
  try {
    const db: Db = { query: (statement) => queryOn(client, statement) }
    const { locked } = await one<{ locked: boolean }>(db, sql`select ${tryLockInSession('publisher')} as locked`)
    isStandby = !locked
    if (locked) await untilAborted(work(db, lost.signal), AbortSignal.any([lost.signal, giveUp]))
  } finally {
    client.off('error', onEnd)
    client.off('end', onEnd)
    // Closing the connection frees the lock. A standby, which asks every second, keeps its connection in the pool.
    client.release(!isStandby)
  }
}

function untilAborted(work: Promise<void>, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted()
  const aborted = new Promise<never>((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  })
  return Promise.race([work, aborted])
}
