import { type AdvisoryLockRow, describeAdvisoryLock, lockKeys } from './advisory_locks.ts'
import { type Db, type DbPool, many } from './pool.ts'
import { type SqlFragment, sql } from './sql.ts'

/** The message tells the operator which lock a command waited for, and who holds it. */
export class LockWaitEnded extends Error {
  override readonly name = 'LockWaitEnded'
}

export type LockWaitOptions = {
  /** 0: no limit. */
  limitMs: number
  say: (message: string) => void
}

type Holder = { pid: number; role: string | null; application: string | null; state: string | null; since: string }

const sayEveryMs = 10_000

const describeHolder = ({ pid, role, application, state, since }: Holder): string =>
  `pid ${pid} (application_name ${application || 'not set'}, role ${role ?? 'not shown'}, state ${state ?? 'not shown'}, connected since ${since})`

const describeWait = (lock: string, holders: readonly Holder[]): string =>
  `waiting for ${lock}, held by ${holders.map(describeHolder).join(', ') || 'a session that has ended'}`

const advice =
  'Find out what those sessions do, end them if they may be ended (pg_terminate_backend), and run the command again; or wait longer with GATEHOUSE_MIGRATE_LOCK_WAIT_SECONDS'

const ended = (limitMs: number, wait: string): LockWaitEnded =>
  new LockWaitEnded(`gave up after ${limitMs / 1_000} s ${wait}. ${advice}`)

/** For a loop that polls for one lock. Reports the holders periodically, and throws at the limit. */
export function createLockWait({ limitMs, say }: LockWaitOptions) {
  const began = Date.now()
  let said = Date.now()
  return {
    async notYet(db: Db, lock: string, holdersOf: SqlFragment): Promise<void> {
      const isOver = limitMs > 0 && Date.now() - began >= limitMs
      if (!isOver && Date.now() - said < sayEveryMs) return
      said = Date.now()
      const wait = describeWait(lock, await holders(db, holdersOf))
      if (isOver) throw ended(limitMs, wait)
      say(wait)
    },
  }
}

/**
 * Sessions by pid. `pids` is a query. Without the right to see a session, only its pid and application name are shown.
 */
const holders = (db: Db, pids: SqlFragment): Promise<Holder[]> =>
  many<Holder>(
    db,
    sql`
    select pid, usename as role, application_name as application, state, backend_start as since
    from pg_stat_activity where pid in (${pids}) and pid <> pg_backend_pid() order by pid`,
  )

export const holdersOfAdvisoryLock = (name: keyof typeof lockKeys): SqlFragment => sql`
  select pid from pg_locks
  where locktype = 'advisory' and granted and objsubid = 1
    and (classid::bigint << 32 | objid::bigint) = ${lockKeys[name]}::bigint
    and database = (select oid from pg_database where datname = current_database())`

export const holdersOfTables = (tables: readonly string[]): SqlFragment => sql`
  select pid from pg_locks
  where locktype = 'relation' and granted and database = (select oid from pg_database where datname = current_database())
    and relation in (select to_regclass(quote_ident(name)) from unnest(${tables}::text[]) name)`

type Blocked = AdvisoryLockRow & { pid: number; locktype: string; relation: string | null; seconds: number }

/**
 * Runs `work`, whose statements wait for locks, and reports from another connection what its sessions wait for.
 * `applicationName` identifies them. The holder must be read early: once lock_timeout ends the wait, PostgreSQL no
 * longer reports it.
 */
export async function reportingLockWaits<Result>(
  pool: DbPool,
  applicationName: string,
  { limitMs, say }: LockWaitOptions,
  work: () => Promise<Result>,
): Promise<Result> {
  let seen: string | undefined
  let isAsking = false
  let said = Date.now()
  const look = async (): Promise<void> => {
    const [blocked] = await many<Blocked>(pool, blockedSessions(applicationName))
    if (!blocked) return
    const lock = blocked.locktype === 'advisory' ? describeAdvisoryLock(blocked) : describeLock(blocked)
    const found = await holders(pool, sql`select unnest(pg_blocking_pids(${blocked.pid}::int))`)
    // It waited for this query itself, as a concurrent index build does, or it no longer waits.
    if (found.length === 0) return
    seen = describeWait(lock, found)
    if (Date.now() - said < sayEveryMs) return
    said = Date.now()
    say(seen)
  }
  const timer = setInterval(() => {
    if (isAsking) return
    isAsking = true
    // `work` fails too, and reports the error.
    void look()
      .catch(() => {})
      .finally(() => {
        isAsking = false
      })
  }, 500)
  try {
    return await work()
  } catch (error) {
    if ((error as { code?: string }).code !== '55P03') throw error
    throw ended(limitMs, seen ?? 'waiting for a lock of PostgreSQL')
  } finally {
    clearInterval(timer)
  }
}

const describeLock = ({ locktype, relation }: Blocked): string =>
  relation ? `a lock on ${relation}` : `a lock (${locktype}) of another transaction`

const blockedSessions = (applicationName: string): SqlFragment => sql`
  select a.pid, l.locktype, l.relation::regclass::text as relation, l.classid::bigint, l.objid::bigint, l.objsubid
  from pg_stat_activity a join pg_locks l on l.pid = a.pid and not l.granted
  where a.application_name = ${applicationName} and a.datname = current_database()
  order by l.waitstart limit 1`
