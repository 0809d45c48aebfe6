import { deleteInBatches } from '../../db/batches.ts'
import { type Db, maybeOne, run } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { type Caller, sessionHasEnded, sessionSeconds } from '../../identity/caller.ts'
import { type Id, newUuid, toUuid, type Uuid } from '../../kernel/ids.ts'

export type SessionRow = { id: Uuid; created_at: string; expires_at: string }
const columns = sql`id, created_at, expires_at`

/** Resolves to undefined when the key lost this token a moment ago. */
export const insertSession = (db: Db, { accountId, apiKeyId }: Caller, hashes: { token: Buffer; secret: Buffer }) =>
  maybeOne<SessionRow>(
    db,
    // The lock on the key's row: whoever deletes or rotates the key now waits, and then meets this session too.
    sql`
    with key as (
      select id from api_keys k
      where account_id = ${accountId} and id = ${toUuid(apiKeyId)} and token_hash = ${hashes.token}
      for share
    )
    insert into dashboard_sessions (account_id, id, api_key_id, token_hash, secret_hash, expires_at)
    select ${accountId}, ${newUuid()}, key.id, ${hashes.token}, ${hashes.secret}, now() + make_interval(secs => ${sessionSeconds})
    from key
    returning ${columns}`,
  )

/** A key has at most this many sessions: the one that was opened first makes room. */
const maxSessions = 50

export const endOldestSessions = (db: Db, { accountId, apiKeyId }: Caller): Promise<void> =>
  run(
    db,
    sql`
    delete from dashboard_sessions where account_id = ${accountId} and id in (
      select id from dashboard_sessions where account_id = ${accountId} and api_key_id = ${toUuid(apiKeyId)}
      order by id desc offset ${maxSessions})`,
  )

export const findSession = (db: Db, { accountId }: Caller, id: Id<'ses'>) =>
  maybeOne<SessionRow>(
    db,
    sql`select ${columns} from dashboard_sessions where account_id = ${accountId} and id = ${toUuid(id)}`,
  )

/** Resolves to undefined when it has ended already. */
export const deleteSession = (db: Db, { accountId }: Caller, id: Id<'ses'>) =>
  maybeOne<SessionRow>(
    db,
    sql`delete from dashboard_sessions where account_id = ${accountId} and id = ${toUuid(id)} returning ${columns}`,
  )

export const deleteEndedSessions = (db: Db): Promise<number> =>
  deleteInBatches(db, sql`dashboard_sessions s`, sql`${sessionHasEnded}`)
