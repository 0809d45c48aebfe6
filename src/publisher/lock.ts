import { hostname } from 'node:os'
import {
  isHeldItem,
  isHeldLock,
  lockSharedInSession,
  tryLockInSession,
  tryLockItemInSession,
  tryLockItemInTransaction,
  unlockInSession,
  unlockItemInSession,
  unlockSharedInSession,
} from '../db/advisory_locks.ts'
import { type Db, type DbPool, many, one, queryOn, run } from '../db/pool.ts'
import { type SqlFragment, sql } from '../db/sql.ts'
import { type Timing, wait } from '../kernel/timing.ts'
import { waitAtMost } from '../kernel/wait_at_most.ts'
import { type Cell, defaultCell } from '../operations/placement.ts'
import { createShare, type Shares } from './share.ts'

/** A session that does not answer for this long is closed, which frees its locks too. */
const unlockWithinMs = 2_000
/**
 * How often a process checks who publishes what while a cell waits for its turn, and otherwise. The next check by a
 * waiting cell finds a cell whose process has died.
 */
const [lookEveryMs, lookWhenIdleMs] = [500, 2_000]
/**
 * PostgreSQL ends a session that has been silent for this long and frees its locks: a hanging or paused process, or one
 * whose machine has lost its network, does not close its connection.
 */
const silentForMs = 5_000
/** After waiting this long for its turn, a publisher checks again whether it could publish at all. */
const turnWithinMs = 5_000
/** For this long after a failure, a process takes only cells that no other process takes. */
const failedForMs = 30_000

/**
 * Runs `work` when it is this process's turn to publish in the cell. Does nothing if its turn does not come within some
 * seconds, or before `leave` aborts. Rejects as soon as the database session that holds the lock ends or `giveUp`
 * aborts, even if `work` hangs: another process may then publish, and writes are fenced. `end` asks `work` to stop soon.
 */
export type HoldPublisherLock = (
  cell: Cell,
  until: { leave: AbortSignal; giveUp: AbortSignal },
  work: (db: Db, end: AbortSignal) => Promise<void>,
) => Promise<void>

type Session = {
  db: Db
  pid: number
  lost: AbortController
  /** Waiting publishers by cell, each with a function that starts it. */
  waiting: Map<number, () => void>
  /** Working publishers by cell, each with a controller that asks it to stop. */
  working: Map<number, AbortController>
  /** Schedules a check, because a publisher has started to wait. */
  look: () => void
}

/** One session holds all locks of a process: an installation has more cells than a pool has connections. */
export function publisherLocks(pool: DbPool, timing: Timing): HoldPublisherLock {
  let current: { opened: Promise<Session>; users: number } | undefined
  let failedAt = Number.NEGATIVE_INFINITY
  const canTake = () => timing.elapsed() - failedAt >= failedForMs

  return async (cell, { leave, giveUp }, work) => {
    current ??= { opened: openSession(pool, timing, canTake), users: 0 }
    const shared = current
    shared.users++
    let session: Session | undefined
    try {
      session = await shared.opened
      if (!(await isTurn(session, cell, timing, AbortSignal.any([leave, giveUp, session.lost.signal])))) return
      try {
        await holding(session, cell, giveUp, work)
      } catch (error) {
        failedAt = timing.elapsed()
        throw error
      }
    } finally {
      shared.users--
      if (current === shared && (shared.users === 0 || !session || session.lost.signal.aborted)) current = undefined
      if (shared.users === 0) session?.lost.abort(new Error('no publisher needs the session'))
    }
  }
}

/** Serializes the queries of all publishers, because the connection takes one statement at a time. */
async function openSession(pool: DbPool, timing: Timing, canTake: () => boolean): Promise<Session> {
  const client = await pool.connect()
  const lost = new AbortController()
  const onEnd = () => lost.abort(new Error('the database session with the publisher lock has ended'))
  client.on('error', onEnd)
  client.on('end', onEnd)
  lost.signal.addEventListener('abort', () => {
    client.off('error', onEnd)
    client.off('end', onEnd)
    // Closing the connection frees the locks.
    client.release(true)
  })
  let last: Promise<unknown> = Promise.resolve()
  const query: Db['query'] = (statement) => {
    const answer = last.then(() => queryOn(client, statement))
    last = answer.catch(() => {})
    return answer
  }
  const db = { query }
  try {
    const { pid } = await one<{ pid: number }>(
      db,
      sql`
      select pg_backend_pid() as pid, set_config('idle_session_timeout', ${String(silentForMs)}, false),
        set_config('application_name', ${sessionName()}, false)`,
    )
    const session = { db, pid, lost, waiting: new Map(), working: new Map(), look() {} }
    void keepLooking(session, timing, canTake)
    return session
  } catch (error) {
    lost.abort(error)
    throw error
  }
}

const namePrefix = 'gatehouse publisher '
/** PostgreSQL truncates it to 63 bytes. */
const sessionName = (): string => `${namePrefix}${hostname().slice(0, 30)}:${process.pid}`

async function keepLooking(session: Session, timing: Timing, canTake: () => boolean): Promise<void> {
  const { db, pid, lost, waiting, working } = session
  const share = createShare()
  let isCounting = false
  while (!lost.signal.aborted) {
    try {
      if (canTake() !== isCounting) {
        const change = isCounting ? unlockSharedInSession('canPublish') : lockSharedInSession('canPublish')
        await run(db, sql`select ${change}`)
        isCounting = !isCounting
      }
      const { shares, counting } = await readShares(db)
      const cells = new Set([...waiting.keys(), ...working.keys(), ...[...shares.values()].flatMap((its) => [...its])])
      const { take, giveUp } = share({ own: pid, shares, counting, cells })
      for (const cell of take) waiting.get(cell)?.()
      if (giveUp !== undefined) working.get(giveUp)?.abort()
    } catch {
      // The database is slow, or the session has ended, which its users notice themselves.
    }
    const asked = new AbortController()
    session.look = () => asked.abort()
    const ms = waiting.size > 0 ? lookEveryMs : lookWhenIdleMs
    await wait(timing, ms, AbortSignal.any([lost.signal, asked.signal]))
  }
}

async function readShares(db: Db): Promise<{ shares: Shares; counting: ReadonlySet<number> }> {
  const held = await many<{ pid: number; cell: number | null }>(
    db,
    sql`select l.pid, ${cellOf} as cell from pg_locks l where ${isPublisherLock} or ${isHeldItem('canPublish')}`,
  )
  const shares = new Map<number, Set<number>>()
  const counting = new Set<number>()
  for (const { pid, cell } of held)
    if (cell === null) counting.add(pid)
    else shares.set(pid, new Set([...(shares.get(pid) ?? []), cell]))
  return { shares, counting }
}

const isPublisherLock = sql`(${isHeldLock('publisher')} or ${isHeldItem('publisherOfCell')})`
/** Null for the lock that marks a process as able to publish. */
const cellOf = sql`case when ${isHeldLock('publisher')} then ${defaultCell.id} when ${isHeldItem('publisherOfCell')} then l.objid::int end`

/** The publishing process of each cell, as `host:pid`. */
export async function publishersByCell(db: Db): Promise<Map<number, string>> {
  const rows = await many<{ cell: number; name: string }>(
    db,
    sql`
    select ${cellOf} as cell, a.application_name as name from pg_locks l join pg_stat_activity a using (pid)
    where ${isPublisherLock}`,
  )
  return new Map(rows.map(({ cell, name }) => [cell, name.replace(namePrefix, '')]))
}

/** Waits until a check assigns the cell to this process, and takes its lock. */
async function isTurn(session: Session, cell: Cell, timing: Timing, leave: AbortSignal): Promise<boolean> {
  const { db, waiting } = session
  const turn = new AbortController()
  waiting.set(cell.id, () => turn.abort())
  session.look()
  try {
    await wait(timing, turnWithinMs, AbortSignal.any([leave, turn.signal]))
  } finally {
    waiting.delete(cell.id)
  }
  if (!turn.signal.aborted || leave.aborted) return false
  return (await one<{ locked: boolean }>(db, sql`select ${tryLock(cell)} as locked`)).locked
}

async function holding(
  { db, lost, working }: Session,
  cell: Cell,
  giveUp: AbortSignal,
  work: Parameters<HoldPublisherLock>[2],
): Promise<void> {
  let isHeld = true
  // Work that hangs must not continue once another process has the lock.
  const own: Db = {
    query: (statement) =>
      isHeld ? db.query(statement) : Promise.reject(new Error('the publisher lock was given up meanwhile')),
  }
  const end = new AbortController()
  working.set(cell.id, end)
  try {
    await untilAborted(work(own, AbortSignal.any([lost.signal, end.signal])), AbortSignal.any([lost.signal, giveUp]))
  } finally {
    isHeld = false
    working.delete(cell.id)
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

/**
 * Inside the transaction: whether no process publishes in the cell, nor can before the transaction ends. Not for the
 * default cell.
 */
export const lockAgainstPublishers = async (tx: Db, cell: Cell): Promise<boolean> =>
  (await one<{ locked: boolean }>(tx, sql`select ${tryLockItemInTransaction('publisherOfCell', cell.id)} as locked`))
    .locked

/** Publishers of the previous version take the default cell's lock, and only one may be active. */
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
