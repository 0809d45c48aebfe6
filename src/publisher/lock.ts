import { tryLockInSession, tryLockItemInSession, unlockInSession, unlockItemInSession } from '../db/advisory_locks.ts'
import { type Db, type DbPool, one, queryOn } from '../db/pool.ts'
import { type SqlFragment, sql } from '../db/sql.ts'
import { waitAtMost } from '../kernel/wait_at_most.ts'
import { type Cell, defaultCell } from '../operations/placement.ts'

/** A session that does not answer for this long is closed, which frees its locks too. */
const unlockWithinMs = 2_000

/**
 * Runs `work` if this process gets the lock of the cell's publisher. Rejects as soon as the session of the database that
 * holds the lock ends or `giveUp` aborts, even if `work` hangs: another process may then publish, and writes are fenced.
 */
export type HoldPublisherLock = (
  cell: Cell,
  giveUp: AbortSignal,
  work: (db: Db, lost: AbortSignal) => Promise<void>,
) => Promise<void>

type Session = { db: Db; lost: AbortController; giveBack: () => void }
type Shared = { opened: Promise<Session>; users: number }

/** All locks of a process are held by one session: an installation has more cells than a pool has connections. */
export function publisherLocks(pool: DbPool): HoldPublisherLock {
  let current: Shared | undefined

  return async (cell, giveUp, work) => {
    current ??= { opened: openSession(pool), users: 0 }
    const shared = current
    shared.users++
    let session: Session | undefined
    try {
      session = await shared.opened
      const { locked } = await one<{ locked: boolean }>(session.db, sql`select ${tryLock(cell)} as locked`)
      if (locked) await holding(session, cell, giveUp, work)
    } finally {
      shared.users--
      const isLost = !session || session.lost.signal.aborted
      if (current === shared && (isLost || shared.users === 0)) current = undefined
      // A standby, which asks every second, keeps its connection in the pool.
      if (!isLost && shared.users === 0) session?.giveBack()
    }
  }
}

/** Publishers of several cells ask one after the other: the connection takes one statement at a time. */
async function openSession(pool: DbPool): Promise<Session> {
  const client = await pool.connect()
  const lost = new AbortController()
  const onEnd = () => lost.abort(new Error('the database session with the publisher lock has ended'))
  client.on('error', onEnd)
  client.on('end', onEnd)
  const forget = () => {
    client.off('error', onEnd)
    client.off('end', onEnd)
  }
  lost.signal.addEventListener('abort', () => {
    forget()
    // Closing the connection frees the locks.
    client.release(true)
  })
  const giveBack = () => {
    forget()
    client.release()
  }
  let last: Promise<unknown> = Promise.resolve()
  const query: Db['query'] = (statement) => {
    const answer = last.then(() => queryOn(client, statement))
    last = answer.catch(() => {})
    return answer
  }
  return { db: { query }, lost, giveBack }
}

async function holding(
  { db, lost }: Session,
  cell: Cell,
  giveUp: AbortSignal,
  work: Parameters<HoldPublisherLock>[2],
): Promise<void> {
  let isHeld = true
  // Work that hangs must not go on once another process has the lock.
  const own: Db = {
    query: (statement) =>
      isHeld ? db.query(statement) : Promise.reject(new Error('the publisher lock was given up meanwhile')),
  }
  try {
    await untilAborted(work(own, lost.signal), AbortSignal.any([lost.signal, giveUp]))
  } finally {
    isHeld = false
    if (!lost.signal.aborted) {
      let isUnlocked = false
      const unlocking = one(db, sql`select ${unlock(cell)} as unlocked`).then(
        () => {
          isUnlocked = true
        },
        () => {},
      )
      await waitAtMost(unlockWithinMs, unlocking)
      if (!isUnlocked) lost.abort(new Error('the database does not free the publisher lock'))
    }
  }
}

/** Publishers of the version before take the lock of the default cell, and only one may be active. */
const tryLock = (cell: Cell): SqlFragment =>
  cell.id === defaultCell.id ? tryLockInSession('publisher') : tryLockItemInSession('publisherOfCell', cell.id)
const unlock = (cell: Cell): SqlFragment =>
  cell.id === defaultCell.id ? unlockInSession('publisher') : unlockItemInSession('publisherOfCell', cell.id)

function untilAborted(work: Promise<void>, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted()
  const aborted = new Promise<never>((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  })
  return Promise.race([work, aborted])
}
