import { deleteInBatches } from '../../db/batches.ts'
import { type Db, later, many, maybeOne } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { type Caller, sessionHasEnded, sessionSeconds } from '../../identity/caller.ts'
import { type Id, newUuid, toUuid, type Uuid } from '../../kernel/ids.ts'

export type SessionRow = { id: Uuid; created_at: string; expires_at: string }
const columns = sql`id, created_at, expires_at`

/** Resolves to undefined if the key's token was just replaced. */
export const insertSession = (db: Db, { accountId, apiKeyId }: Caller, hashes: { token: Buffer; secret: Buffer }) =>
  maybeOne<SessionRow>(
    db,
    // Locks the key's row: a concurrent delete or rotation waits, and then finds this session.
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

export type SignedInBy = { identityId: Uuid; provider: string; sid: string | null; idToken: string | null }

/** A session from a provider sign-in, attached to the identity's key; undefined if the identity was just deleted. */
export const insertProviderSession = (
  db: Db,
  { accountId, apiKeyId }: Pick<Caller, 'accountId' | 'apiKeyId'>,
  secretHash: Buffer,
  { identityId, provider, sid, idToken }: SignedInBy,
) =>
  maybeOne<SessionRow>(
    db,
    sql`
    with key as (
      select id, token_hash from api_keys where account_id = ${accountId} and id = ${toUuid(apiKeyId)} for share
    )
    insert into dashboard_sessions
      (account_id, id, api_key_id, token_hash, secret_hash, expires_at, identity_id, provider, provider_sid, id_token)
    select ${accountId}, ${newUuid()}, key.id, key.token_hash, ${secretHash},
      now() + make_interval(secs => ${sessionSeconds}), ${identityId}, ${provider}, ${sid}, ${idToken}
    from key
    returning ${columns}`,
  )

/** Data for signing out at the provider. */
export const findSignedInBy = (db: Db, { accountId }: Pick<Caller, 'accountId'>, id: Id<'ses'>) =>
  maybeOne<{ provider: string | null; id_token: string | null }>(
    db,
    sql`select provider, id_token from dashboard_sessions where account_id = ${accountId} and id = ${toUuid(id)}`,
  )

/**
 * Ends the sessions of a subject, or of one session at the provider, that were opened before a moment. Resolves to the
 * ended sessions.
 */
export const deleteProviderSessions = (
  db: Db,
  { accountId }: Pick<Caller, 'accountId'>,
  ended: { issuer: string; subject: string | undefined; sid: string | undefined; before: number },
) =>
  many<{ id: Uuid; owner_id: Uuid; provider: string | null }>(
    db,
    sql`
    delete from dashboard_sessions s using identities i
    where s.account_id = ${accountId} and i.account_id = ${accountId} and i.id = s.identity_id
      and i.issuer = ${ended.issuer}
      and (${ended.subject ?? null}::text is null or i.subject = ${ended.subject ?? null})
      and (${ended.sid ?? null}::text is null or s.provider_sid = ${ended.sid ?? null})
      and s.created_at < to_timestamp(${ended.before})
    returning s.id, i.owner_id, i.provider`,
  )

/** Sessions per key. A new one replaces the oldest. */
const maxSessions = 50

export const endOldestSessions = (
  db: Db,
  { accountId, apiKeyId }: Pick<Caller, 'accountId' | 'apiKeyId'>,
): Promise<void> =>
  later(
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

/** Resolves to undefined if it has already ended. */
export const deleteSession = (db: Db, { accountId }: Pick<Caller, 'accountId'>, id: Id<'ses'>) =>
  maybeOne<SessionRow>(
    db,
    sql`delete from dashboard_sessions where account_id = ${accountId} and id = ${toUuid(id)} returning ${columns}`,
  )

export const deleteEndedSessions = (db: Db): Promise<number> =>
  deleteInBatches(db, sql`dashboard_sessions s`, sql`${sessionHasEnded}`)
