import { violates } from '../../db/failures.ts'
import { type Db, later, many, maybeOne, one } from '../../db/pool.ts'
import { nothing, sql } from '../../db/sql.ts'
import type { Caller, Role } from '../../identity/caller.ts'
import { Refusal } from '../../kernel/errors.ts'
import { type Id, newUuid, toUuid, type Uuid } from '../../kernel/ids.ts'
import { type PageQuery, rowsToFetch } from '../../kernel/paging.ts'

export type PrincipalRow = {
  id: Uuid
  kind: 'user' | 'bot'
  name: string
  email: string | null
  role: Role
  active: boolean
  created_at: string
}
type Kind = PrincipalRow['kind']
type Account = Pick<Caller, 'accountId'>
type PrincipalId = Id<'usr' | 'bot'>

const columns = sql`id, kind, name, email, role, active, created_at`

export const insertPrincipal = (db: Db, { accountId }: Account, fields: Omit<PrincipalRow, 'id' | 'created_at'>) =>
  refusingTakenEmail(
    one<PrincipalRow>(
      db,
      sql`
      insert into principals (account_id, id, kind, name, email, role, active)
      values (${accountId}, ${newUuid()}, ${fields.kind}, ${fields.name}, ${fields.email}, ${fields.role}, ${fields.active})
      returning ${columns}`,
    ),
  )

export const findPrincipal = (db: Db, { accountId }: Account, kind: Kind, id: PrincipalId, lock: boolean) =>
  maybeOne<PrincipalRow>(
    db,
    sql`
    select ${columns} from principals
    where account_id = ${accountId} and id = ${toUuid(id)} and kind = ${kind} ${lock ? sql`for update` : nothing}`,
  )

/** A user by email, ignoring case, held until the transaction ends. */
export const findUserByEmail = (db: Db, { accountId }: Account, email: string) =>
  maybeOne<PrincipalRow>(
    db,
    sql`
    select ${columns} from principals
    where account_id = ${accountId} and kind = 'user' and lower(email) = lower(${email}) for update`,
  )

export const listPrincipals = (
  db: Db,
  { accountId }: Account,
  kind: Kind,
  query: PageQuery &
    Partial<Pick<PrincipalRow, 'name' | 'role' | 'active'>> & { before_id?: PrincipalId; email?: string },
) =>
  many<PrincipalRow>(
    db,
    sql`
    select ${columns} from principals
    where account_id = ${accountId} and kind = ${kind} ${query.before_id ? sql`and id < ${toUuid(query.before_id)}` : nothing}
    ${query.name === undefined ? nothing : sql`and name = ${query.name}`}
    ${query.email === undefined ? nothing : sql`and lower(email) = lower(${query.email})`}
    ${query.role ? sql`and role = ${query.role}` : nothing}
    ${query.active === undefined ? nothing : sql`and active = ${query.active}`}
    order by id desc
    limit ${rowsToFetch(query)}`,
  )

export const updatePrincipal = (db: Db, { accountId }: Account, { id, name, email, role, active }: PrincipalRow) =>
  refusingTakenEmail(
    one<PrincipalRow>(
      db,
      sql`
      update principals set name = ${name}, email = ${email}, role = ${role}, active = ${active}
      where account_id = ${accountId} and id = ${id}
      returning ${columns}`,
    ),
  )

export const deletePrincipal = (db: Db, { accountId }: Account, id: PrincipalId) =>
  later(db, sql`delete from principals where account_id = ${accountId} and id = ${toUuid(id)}`)

/** Locked in one order, so that two admins who demote each other at once wait in line: the second finds itself the last. */
export const lockActiveAdmins = (db: Db, { accountId }: Account) =>
  many<{ id: Uuid }>(
    db,
    sql`
    select id from principals
    where account_id = ${accountId} and kind = 'user' and role = 'admin' and active
    order by id
    for update`,
  )

/** Whether this is an active admin, who stays one until the transaction ends. */
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
