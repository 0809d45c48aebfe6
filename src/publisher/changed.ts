import type { DbPool } from '../db/pool.ts'
import { type SqlFragment, sql } from '../db/sql.ts'
import type { PolicyRecord, RecordKey, RecordValue } from '../distribution/records.ts'
import { type Id, toUuid, type Uuid } from '../kernel/ids.ts'

/** What changed, and whose it is. */
export type Changed = { key: RecordKey; accountId: Uuid }
/** What is not in it is not in the database any more. */
export type Values = Map<Uuid, { value: RecordValue; rules?: PolicyRecord; blobs?: Buffer[] }>
export type Compiler = (db: DbPool, changed: readonly Changed[], now: number) => Promise<Values>

export const uuidOf = (key: RecordKey): Uuid => toUuid(key.slice(key.indexOf('.') + 1) as Id)
export const ids = (changed: readonly Changed[]): Uuid[] => changed.map(({ key }) => uuidOf(key))

/** A table `wanted` to join with, of account_id and id. */
export const wanted = (changed: readonly Changed[]): SqlFragment =>
  sql`unnest(${changed.map(({ accountId }) => accountId)}::uuid[], ${ids(changed)}::uuid[]) as wanted (account_id, id)`
