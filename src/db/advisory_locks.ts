import { type SqlFragment, sql } from './sql.ts'

// Every advisory lock of the program. A test compares these lists with src/ and migrations/. PostgreSQL keeps keys of one
// bigint apart from keys of two ints, and keys of different databases apart.

/** Locks with a key of one bigint. */
export const lockKeys = {
  migrate: 7_204_113_001,
  /** Taken by migrations/0008. */
  auditPartitions: 7_204_113_002,
  /**
   * Never change this value: during an upgrade, publishers of two versions run side by side and must exclude each
   * other.
   */
  publisher: 7_204_113_003,
  grants: 7_204_113_004,
  /** Taken by migrations/0021. */
  requestPartitions: 7_204_113_005,
  /** Held while cells are created or deleted, and while accounts are placed in them. */
  placement: 7_204_113_006,
  retention: 7_204_113_038,
} as const

/**
 * The top 16 bits of bigint keys that migrations/0003 and migrations/0027 build from a generation or an audit position.
 */
export const lockMarks = { generations: 71, auditPositions: 72 } as const

/** First int of two-int keys. The second is a hash or number of the locked item. */
export const lockClasses = {
  /** Taken by migrations/0007. */
  hostportClaims: 72,
  tcpPortsOfAccount: 73,
  domains: 74,
  identities: 79,
  /** Taken by migrations/0047. */
  quotas: 80,
  /** Publishers of all cells except the default cell, which uses `lockKeys.publisher`. */
  publisherOfCell: 81,
  /** Held in shared mode by every process that can publish, so that each can count the others. */
  canPublish: 82,
  /** Taken by migrations/0080: changes that decide about access, and their access tests. */
  access: 83,
} as const

type LockName = keyof typeof lockKeys

/** SQL expression that waits for the lock and holds it until the transaction ends. */
export const lockInTransaction = (name: LockName): SqlFragment => sql`pg_advisory_xact_lock(${lockKeys[name]}::bigint)`

/** Like `lockInTransaction`, for one item such as an account. `item` is an int. */
export const lockItemInTransaction = (of: keyof typeof lockClasses, item: SqlFragment): SqlFragment =>
  sql`pg_advisory_xact_lock(${lockClasses[of]}::int, ${item})`

/** SQL expression that is true if this session obtained the lock. The session holds it until it unlocks or ends. */
export const tryLockInSession = (name: LockName): SqlFragment => sql`pg_try_advisory_lock(${lockKeys[name]}::bigint)`

/** Like `tryLockInSession`, for one item. */
export const tryLockItemInSession = (of: keyof typeof lockClasses, item: number): SqlFragment =>
  sql`pg_try_advisory_lock(${lockClasses[of]}::int, ${item}::int)`
/** Like `tryLockItemInSession`, until the transaction ends. */
export const tryLockItemInTransaction = (of: keyof typeof lockClasses, item: number): SqlFragment =>
  sql`pg_try_advisory_xact_lock(${lockClasses[of]}::int, ${item}::int)`
export const unlockItemInSession = (of: keyof typeof lockClasses, item: number): SqlFragment =>
  sql`pg_advisory_unlock(${lockClasses[of]}::int, ${item}::int)`

/** Shared lock: any number of sessions can hold it. */
export const lockSharedInSession = (of: keyof typeof lockClasses): SqlFragment =>
  sql`pg_advisory_lock_shared(${lockClasses[of]}::int, 0)`
export const unlockSharedInSession = (of: keyof typeof lockClasses): SqlFragment =>
  sql`pg_advisory_unlock_shared(${lockClasses[of]}::int, 0)`

export const unlockInSession = (name: LockName): SqlFragment => sql`pg_advisory_unlock(${lockKeys[name]}::bigint)`

/** Condition on rows `l` of pg_locks: the lock is held, in this database. */
export const isHeldLock = (name: LockName): SqlFragment =>
  sql`${isHere} and l.objsubid = 1 and (l.classid::bigint << 32 | l.objid::bigint) = ${lockKeys[name]}::bigint`
export const isHeldItem = (of: keyof typeof lockClasses): SqlFragment =>
  sql`${isHere} and l.objsubid = 2 and l.classid::bigint = ${lockClasses[of]}`
const isHere = sql`l.locktype = 'advisory' and l.granted and l.database = (
  select oid from pg_database where datname = current_database())`

/** A row of pg_locks; PostgreSQL shows the numbers as unsigned. */
export type AdvisoryLockRow = { classid: number; objid: number; objsubid: number }

/** Describes a lock for the operator: `the advisory lock 'grants' (7204113004)`. */
export function describeAdvisoryLock({ classid, objid, objsubid }: AdvisoryLockRow): string {
  const nameIn = (keys: Readonly<Record<string, number>>, wanted: number) =>
    Object.entries(keys).find(([, key]) => key === wanted)?.[0] ?? 'unknown'
  if (objsubid === 2) return `the advisory lock '${nameIn(lockClasses, classid)}' (${classid}, ${objid})`
  const key = classid * 2 ** 32 + objid
  return `the advisory lock '${nameIn(lockKeys, key)}' (${key})`
}
