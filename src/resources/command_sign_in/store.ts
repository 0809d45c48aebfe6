import { deleteInBatches } from '../../db/batches.ts'
import { type Db, later, maybeOne } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import type { Caller } from '../../identity/caller.ts'
import { hashToken } from '../../identity/token.ts'
import { newUuid, type Uuid } from '../../kernel/ids.ts'

/** Time limit for approving the sign-in and collecting the key. */
export const commandSignInSeconds = 10 * 60

export type CommandSignInRow = {
  id: Uuid
  client: string
  host: string
  source_ip: string | null
  created_at: string
  expires_at: string
}
const columns = sql`id, client, host, host(source_ip) as source_ip, created_at, expires_at`

type Wanted = { code: string; challenge: Buffer; client: string; host: string; sourceIp: string | undefined }

/** Has no account yet; the approval determines it. Resolves to undefined if the code is in use. */
export const insertCommandSignIn = (db: Db, wanted: Wanted) =>
  maybeOne<CommandSignInRow>(
    db,
    sql`
    insert into command_sign_ins (id, code_hash, challenge, client, host, source_ip, expires_at)
    values (${newUuid()}, ${hashToken(wanted.code)}, ${wanted.challenge}, ${wanted.client}, ${wanted.host},
      ${wanted.sourceIp ?? null}, now() + make_interval(secs => ${commandSignInSeconds}))
    on conflict (code_hash) do nothing
    returning ${columns}`,
  )

/** A pending sign-in, locked until the transaction ends. */
export const findPending = (db: Db, code: string) =>
  maybeOne<CommandSignInRow>(
    db,
    sql`
    select ${columns} from command_sign_ins
    where code_hash = ${hashToken(code)} and expires_at > now() and not denied and api_key_id is null
    for update`,
  )

export const deny = (db: Db, id: Uuid): Promise<void> =>
  later(db, sql`update command_sign_ins set denied = true where id = ${id}`)

export const approve = (db: Db, { accountId }: Caller, id: Uuid, apiKeyId: Uuid): Promise<void> =>
  later(db, sql`update command_sign_ins set account_id = ${accountId}, api_key_id = ${apiKeyId} where id = ${id}`)

export type Collected = { api_key_id: Uuid; account_id: Uuid; expires_at: string | null }

/**
 * Gives the approved key its token and deletes the request, so a second collection finds nothing. Before this, the key
 * had a token that was never revealed.
 */
export const collect = (db: Db, id: Uuid, challenge: Buffer, tokenHash: Buffer) =>
  maybeOne<Collected>(
    db,
    sql`
    with taken as (
      delete from command_sign_ins
      where id = ${id} and challenge = ${challenge} and expires_at > now() and not denied and api_key_id is not null
      returning account_id, api_key_id
    )
    update api_keys k set token_hash = ${tokenHash} from taken
    where k.account_id = taken.account_id and k.id = taken.api_key_id
    returning k.id as api_key_id, k.account_id, k.expires_at`,
  )

export const stateOf = (db: Db, id: Uuid, challenge: Buffer) =>
  maybeOne<{ denied: boolean }>(
    db,
    sql`select denied from command_sign_ins where id = ${id} and challenge = ${challenge} and expires_at > now()`,
  )

/**
 * Deletes unfinished sign-ins at providers and of commands, and keys of `gatehouse login` one day after expiry: people
 * get one nearly every day, and investigations of a failed call should still find it.
 */
export async function deleteEndedSignIns(db: Db): Promise<void> {
  await deleteInBatches(db, sql`sign_in_flows`, sql`expires_at <= now()`)
  await deleteInBatches(db, sql`command_sign_ins`, sql`expires_at <= now()`)
  await deleteInBatches(db, sql`api_keys`, sql`sign_in = 'command' and expires_at < now() - interval '1 day'`)
}
