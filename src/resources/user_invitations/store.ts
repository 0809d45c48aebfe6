import { deleteInBatches } from '../../db/batches.ts'
import { type Db, later, maybeOne, one } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import type { Caller, Role } from '../../identity/caller.ts'
import { type Id, toUuid, type Uuid } from '../../kernel/ids.ts'
import type { InvitationState } from './schema.ts'

export type InvitationRow = {
  account_id: Uuid
  user_id: Uuid
  api_key_id: Uuid | null
  invited_by: Uuid
  created_at: string
  expires_at: string
  accepted_at: string | null
  state: InvitationState
}
type Account = Pick<Caller, 'accountId'>

/** The invitation ends as soon as the key, the user or the inviter's rights end. */
const state = sql`
      case
        when i.accepted_at is not null then 'accepted'
        when i.expires_at <= statement_timestamp() then 'expired'
        when k.id is null or k.rotated_at is not null or k.expires_at <= statement_timestamp() or not p.active
          or not exists (
            select from principals a
            where a.account_id = i.account_id and a.id = i.invited_by and a.role = 'admin' and a.active)
          then 'withdrawn'
        else 'waiting'
      end`
const columns = sql`
      i.account_id, i.user_id, i.api_key_id, i.invited_by, i.created_at, i.expires_at, i.accepted_at,
      ${state} as state`
const joined = sql`
    user_invitations i
      join principals p on p.account_id = i.account_id and p.id = i.user_id
      left join api_keys k on k.account_id = i.account_id and k.id = i.api_key_id`

/** Joined to a user `p` for the list of users, which avoids one query per user. */
export const invitationOfUser = sql`
      select ${state} as invitation_state, i.expires_at as invitation_expires_at, i.api_key_id as invitation_api_key_id
      from user_invitations i left join api_keys k on k.account_id = i.account_id and k.id = i.api_key_id
      where i.account_id = p.account_id and i.user_id = p.id`

export const findInvitation = (db: Db, { accountId }: Account, userId: Id<'usr'>) =>
  maybeOne<InvitationRow>(
    db,
    sql`select ${columns} from ${joined} where i.account_id = ${accountId} and i.user_id = ${toUuid(userId)}`,
  )

type Invited = { secretHash: Buffer; apiKeyId: Uuid; invitedBy: Id<'usr' | 'bot'>; seconds: number }

/** Replaces the user's previous invitation, whose link then stops working. */
export const putInvitation = (db: Db, { accountId }: Account, userId: Id<'usr'>, invited: Invited) =>
  one<Omit<InvitationRow, 'state'>>(
    db,
    sql`
    insert into user_invitations as i (account_id, user_id, secret_hash, api_key_id, invited_by, expires_at)
    values (${accountId}, ${toUuid(userId)}, ${invited.secretHash}, ${invited.apiKeyId}, ${toUuid(invited.invitedBy)},
      now() + make_interval(secs => ${invited.seconds}))
    on conflict (account_id, user_id) do update set
      secret_hash = excluded.secret_hash, api_key_id = excluded.api_key_id, invited_by = excluded.invited_by,
      created_at = excluded.created_at, expires_at = excluded.expires_at, accepted_at = null
    returning account_id, user_id, api_key_id, invited_by, created_at, expires_at, accepted_at`,
  )

export type OpenedInvitation = InvitationRow & { name: string; email: string; role: Role; account_name: string }

/** Finds an invitation by its secret, which determines the account. */
export const openInvitation = (db: Db, secretHash: Buffer) =>
  maybeOne<OpenedInvitation>(
    db,
    sql`
    select ${columns}, p.name, p.email, p.role, a.name as account_name
    from ${joined} join accounts a on a.id = i.account_id
    where i.secret_hash = ${secretHash}`,
  )

/** Serializes concurrent accepts. Locks the key before the invitation, as deleting the key does. */
export const holdInvitation = (tx: Db, secretHash: Buffer): Promise<void> =>
  later(
    tx,
    sql`
    select from api_keys
    where (account_id, id) = (select account_id, api_key_id from user_invitations where secret_hash = ${secretHash})
    for update`,
  )

/** Lifetime of an accepted invitation's key. An admin can extend it or invite again. */
const keyDays = 90

export const acceptInvitation = (tx: Db, { account_id, user_id, api_key_id }: InvitationRow, tokenHash: Buffer) =>
  maybeOne<{ accepted_at: string }>(
    tx,
    sql`
    with given as (
      update api_keys set token_hash = ${tokenHash}, expires_at = now() + make_interval(days => ${keyDays})
      where account_id = ${account_id} and id = ${api_key_id}
      returning id
    )
    update user_invitations i set accepted_at = now() from given
    where i.account_id = ${account_id} and i.user_id = ${user_id} and i.api_key_id = given.id
    returning i.accepted_at`,
  )

/** Deletes keys of invitations a day after they expired unaccepted. The invitation stays and shows that it expired. */
export const deleteKeysOfExpiredInvitations = (db: Db): Promise<number> =>
  deleteInBatches(
    db,
    sql`api_keys`,
    sql`(account_id, id) in (
      select account_id, api_key_id from user_invitations
      where accepted_at is null and api_key_id is not null and expires_at < now() - interval '1 day')`,
  )
