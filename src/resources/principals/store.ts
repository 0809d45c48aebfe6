import { violates } from '../../db/failures.ts'
import { type Db, later, many, maybeOne, one } from '../../db/pool.ts'
import { nothing, sql } from '../../db/sql.ts'
import type { Caller, Role } from '../../identity/caller.ts'
import { Refusal } from '../../kernel/errors.ts'
import { type Id, newUuid, toUuid, type Uuid } from '../../kernel/ids.ts'
import { type PageQuery, rowsToFetch } from '../../kernel/paging.ts'
import type { InvitationState } from '../user_invitations/schema.ts'
import { invitationOfUser } from '../user_invitations/store.ts'

export type PrincipalRow = {
  id: Uuid
  kind: 'user' | 'bot'
  name: string
  email: string | null
  role: Role
  active: boolean
  created_at: string
}
/** A user with volatile fields: whether they have signed in, and their latest invitation. */
export type UserRow = PrincipalRow & {
  has_signed_in: boolean
  invitation_state: InvitationState | null
  invitation_expires_at: string | null
  invitation_api_key_id: Uuid | null
}
type Kind = PrincipalRow['kind']
type Account = Pick<Caller, 'accountId'>
type PrincipalId = Id<'usr' | 'bot'>

const columns = sql`p.id, p.kind, p.name, p.email, p.role, p.active, p.created_at`
/** `toId('usr', …)` in SQL, for comparison with the audit log: five bits per character, after two zero bits. */
const publicId = sql`'usr_' || (
      select string_agg(substr('0123456789abcdefghjkmnpqrstvwxyz', 1 + substring(
        B'00' || ('x' || replace(p.id::text, '-', ''))::bit(128) from 1 + 5 * place for 5)::bit(5)::int, 1), '' order by place)
      from generate_series(0, 25) as place)`
/** Keys are deleted and audit events expire, so this checks several sources. */
const hasSignedIn = sql`(
      exists (select from api_keys k join api_key_uses u on u.account_id = k.account_id and u.api_key_id = k.id
        where k.account_id = p.account_id and k.owner_id = p.id)
      or exists (select from identities s
        where s.account_id = p.account_id and s.owner_id = p.id and s.last_sign_in_at is not null)
      or exists (select from audit_events e where e.account_id = p.account_id and e.owner_id = ${publicId})
    ) as has_signed_in`
/** Reads all of it in the statement of the page. */
const columnsOf = (kind: Kind) =>
  kind === 'bot'
    ? columns
    : sql`${columns}, ${hasSignedIn}, i.invitation_state, i.invitation_expires_at, i.invitation_api_key_id`
const withInvitation = (kind: Kind) =>
  kind === 'bot' ? nothing : sql`left join lateral (${invitationOfUser}) i on true`
const neverInvited = sql`false as has_signed_in, null as invitation_state, null as invitation_expires_at,
      null as invitation_api_key_id`

export const insertPrincipal = (db: Db, { accountId }: Account, fields: Omit<PrincipalRow, 'id' | 'created_at'>) =>
  refusingTakenEmail(
    one<UserRow>(
      db,
      sql`
      insert into principals as p (account_id, id, kind, name, email, role, active)
      values (${accountId}, ${newUuid()}, ${fields.kind}, ${fields.name}, ${fields.email}, ${fields.role}, ${fields.active})
      returning ${columns}, ${neverInvited}`,
    ),
  )

export const findPrincipal = (db: Db, { accountId }: Account, kind: Kind, id: PrincipalId, lock: boolean) =>
  maybeOne<UserRow>(
    db,
    sql`
    select ${columnsOf(kind)} from principals p ${withInvitation(kind)}
    where p.account_id = ${accountId} and p.id = ${toUuid(id)} and p.kind = ${kind} ${lock ? sql`for update of p` : nothing}`,
  )

/** Finds a user by email, ignoring case, and locks the row until the transaction ends. */
export const findUserByEmail = (db: Db, { accountId }: Account, email: string) =>
  maybeOne<UserRow>(
    db,
    sql`
    select ${columnsOf('user')} from principals p ${withInvitation('user')}
    where p.account_id = ${accountId} and p.kind = 'user' and lower(p.email) = lower(${email}) for update of p`,
  )

export const listPrincipals = (
  db: Db,
  { accountId }: Account,
  kind: Kind,
  query: PageQuery &
    Partial<Pick<PrincipalRow, 'name' | 'role' | 'active'>> & { before_id?: PrincipalId; email?: string },
) =>
  many<UserRow>(
    db,
    sql`
    select ${columnsOf(kind)} from principals p ${withInvitation(kind)}
    where p.account_id = ${accountId} and p.kind = ${kind}
    ${query.before_id ? sql`and p.id < ${toUuid(query.before_id)}` : nothing}
    ${query.name === undefined ? nothing : sql`and p.name = ${query.name}`}
    ${query.email === undefined ? nothing : sql`and lower(p.email) = lower(${query.email})`}
    ${query.role ? sql`and p.role = ${query.role}` : nothing}
    ${query.active === undefined ? nothing : sql`and p.active = ${query.active}`}
    order by p.id desc
    limit ${rowsToFetch(query)}`,
  )

export const updatePrincipal = (
  db: Db,
  { accountId }: Account,
  { id, kind, name, email, role, active }: PrincipalRow,
) =>
  refusingTakenEmail(
    one<UserRow>(
      db,
      sql`
      with p as (
        update principals set name = ${name}, email = ${email}, role = ${role}, active = ${active}
        where account_id = ${accountId} and id = ${id}
        returning *)
      select ${columnsOf(kind)} from p ${withInvitation(kind)}`,
    ),
  )

export const deletePrincipal = (db: Db, { accountId }: Account, id: PrincipalId) =>
  later(db, sql`delete from principals where account_id = ${accountId} and id = ${toUuid(id)}`)

/**
 * Locks in a fixed order, so that two admins who demote each other are serialized: the second finds itself the last
 * admin.
 */
export const lockActiveAdmins = (db: Db, { accountId }: Account) =>
  many<{ id: Uuid }>(
    db,
    sql`
    select id from principals
    where account_id = ${accountId} and kind = 'user' and role = 'admin' and active
    order by id
    for update`,
  )

/** Whether this is an active admin. The lock keeps it one until the transaction ends. */
export const holdsActiveAdmin = async (db: Db, { accountId }: Account, id: Id<'usr'>): Promise<boolean> =>
  (await maybeOne(
    db,
    sql`
    select from principals
    where account_id = ${accountId} and id = ${toUuid(id)} and kind = 'user' and role = 'admin' and active
    for share`,
  )) !== undefined

async function refusingTakenEmail<Result>(query: Promise<Result>): Promise<Result> {
  try {
    return await query
  } catch (cause) {
    if (!violates(cause, 'principals_email_unique')) throw cause
    throw new Refusal('ERR_EMAIL_TAKEN', 'Another user of this account has this email address. Use a different one.', {
      cause,
      details: { field: 'email' },
    })
  }
}
