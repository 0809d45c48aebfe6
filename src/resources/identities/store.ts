import { lockItemInTransaction } from '../../db/advisory_locks.ts'
import { violates } from '../../db/failures.ts'
import { type Db, later, many, maybeOne } from '../../db/pool.ts'
import { nothing, sql } from '../../db/sql.ts'
import type { Caller } from '../../identity/caller.ts'
import { Refusal } from '../../kernel/errors.ts'
import { type Id, newUuid, toId, toUuid, type Uuid } from '../../kernel/ids.ts'
import { type PageQuery, rowsToFetch } from '../../kernel/paging.ts'
import { holdersOf } from '../api_keys/store.ts'

export type IdentityRow = {
  id: Uuid
  owner_id: Uuid
  provider: string | null
  issuer: string
  subject: string
  api_key_id: Uuid | null
  /** The key that linked it; it may have been deleted. Null if a sign-in did. */
  created_by_key_id: Uuid | null
  /** Principals who linked it and could have signed in with it. */
  issuers: readonly Uuid[]
  created_at: string
  last_sign_in_at: string | null
}
type Account = Pick<Caller, 'accountId'>

const columns = sql`id, owner_id, provider, issuer, subject, api_key_id, created_by_key_id, issuers, created_at, last_sign_in_at`

/** Serializes two concurrent first sign-ins of one person: the second finds the identity of the first. */
export const lockSubject = (tx: Db, { accountId }: Account, issuer: string, subject: string): Promise<void> => {
  const item = sql`hashtext(${JSON.stringify([accountId, issuer, subject])})`
  return later(tx, sql`select ${lockItemInTransaction('identities', item)}`)
}

export const findIdentityOf = (db: Db, { accountId }: Account, issuer: string, subject: string) =>
  maybeOne<IdentityRow>(
    db,
    sql`select ${columns} from identities where account_id = ${accountId} and issuer = ${issuer} and subject = ${subject}`,
  )

export const insertIdentity = (
  db: Db,
  { accountId }: Account,
  fields: Pick<IdentityRow, 'owner_id' | 'issuer' | 'subject' | 'created_by_key_id'>,
) =>
  maybeOne<IdentityRow>(
    db,
    // Locks the owner's row: a concurrent deletion of the user waits, and then deletes this too.
    sql`
    with owner as (
      select id from principals
      where account_id = ${accountId} and id = ${fields.owner_id} and kind = 'user' for key share
    )
    insert into identities (account_id, id, owner_id, issuer, subject, created_by_key_id, issuers)
    select ${accountId}, ${newUuid()}, owner.id, ${fields.issuer}, ${fields.subject}, ${fields.created_by_key_id}::uuid,
      ${fields.created_by_key_id ? holdersOf(accountId, toId('ak', fields.created_by_key_id)) : sql`'{}'::uuid[]`}
    from owner
    returning ${columns}`,
  ).catch((cause) => {
    if (!violates(cause, 'identities_subject_unique')) throw cause
    throw new Refusal(
      'ERR_IDENTITY_TAKEN',
      'A user of this account has this identity already. Delete that one first.',
      {
        cause,
        details: { field: 'subject' },
      },
    )
  })

export const insertIdentityLineage = (tx: Db, { accountId }: Account, id: Uuid, ancestors: readonly Uuid[]) =>
  later(
    tx,
    sql`
    insert into identity_ancestors (account_id, ancestor_id, identity_id)
    select ${accountId}, ancestor, ${id} from unnest(${ancestors}::uuid[]) as ancestor`,
  )

/**
 * Locks the living keys above an identity, so that a concurrent revocation waits and then finds the key that a sign-in
 * creates below them. In id order, like revocations.
 */
export const holdAncestors = async (tx: Db, { accountId }: Account, id: Uuid): Promise<Uuid[]> => {
  const held = await many<{ id: Uuid }>(
    tx,
    sql`
    select id from api_keys
    where account_id = ${accountId} and id = any(
      array(select ancestor_id from identity_ancestors where account_id = ${accountId} and identity_id = ${id}))
    order by id
    for share`,
  )
  return held.map((key) => key.id)
}

/** Deletes the identities linked with a locked key or one below it, and their sessions. Resolves to the identities. */
export const deleteIdentitiesBelow = (tx: Db, { accountId }: Account, keyId: Id<'ak'>) =>
  many<IdentityRow>(
    tx,
    sql`
    delete from identities
    where account_id = ${accountId} and id = any(
      array(select identity_id from identity_ancestors where account_id = ${accountId} and ancestor_id = ${toUuid(keyId)}))
    returning ${columns}`,
  )

export const noteSignIn = (db: Db, { accountId }: Account, id: Uuid, provider: string, apiKeyId: Uuid) =>
  later(
    db,
    sql`
    update identities set last_sign_in_at = now(), provider = ${provider}, api_key_id = ${apiKeyId}
    where account_id = ${accountId} and id = ${id}`,
  )

export const hasIdentity = async (db: Db, { accountId }: Account, ownerId: Uuid): Promise<boolean> =>
  (await maybeOne(
    db,
    sql`select 1 as found from identities where account_id = ${accountId} and owner_id = ${ownerId} limit 1`,
  )) !== undefined

export const findIdentity = (db: Db, { accountId }: Account, id: Id<'idn'>, lock: boolean) =>
  maybeOne<IdentityRow>(
    db,
    sql`
    select ${columns} from identities
    where account_id = ${accountId} and id = ${toUuid(id)} ${lock ? sql`for update` : nothing}`,
  )

export const listIdentities = (
  db: Db,
  { accountId }: Account,
  query: PageQuery & { before_id?: Id<'idn'>; owner_id?: Id<'usr'> },
) =>
  many<IdentityRow>(
    db,
    sql`
    select ${columns} from identities
    where account_id = ${accountId} ${query.before_id ? sql`and id < ${toUuid(query.before_id)}` : nothing}
    ${query.owner_id ? sql`and owner_id = ${toUuid(query.owner_id)}` : nothing}
    order by id desc
    limit ${rowsToFetch(query)}`,
  )

/** Also deletes its sessions, which depend on the identity and on its key. */
export const deleteIdentity = (db: Db, { accountId }: Account, id: Id<'idn'>): Promise<void> =>
  later(db, sql`delete from identities where account_id = ${accountId} and id = ${toUuid(id)}`)
