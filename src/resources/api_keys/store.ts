import { type Db, type DbPool, later, many, maybeOne, one } from '../../db/pool.ts'
import { nothing, type SqlFragment, sql } from '../../db/sql.ts'
import { changeAtOnce } from '../../db/transaction.ts'
import type { Caller } from '../../identity/caller.ts'
import type { Grant } from '../../identity/grant.ts'
import { type Id, newUuid, toUuid, type Uuid } from '../../kernel/ids.ts'
import { type PageQuery, rowsToFetch } from '../../kernel/paging.ts'
import type { Quotas } from '../../kernel/quotas.ts'
import { quotaChecks } from '../../operations/quota.ts'

export type ApiKeyRow = {
  id: Uuid
  owner_id: Uuid
  owner_kind: 'user' | 'bot'
  /** The key that created it; it may have been deleted. */
  created_by_key_id: Uuid | null
  description: string | null
  metadata: string | null
  created_at: string
  expires_at: string | null
  scopes: readonly string[]
  allowed_cidrs: readonly string[]
  rotated_at: string | null
  last_used_at: string | null
  last_used_ip: string | null
  /** Null unless a replaced token still works. */
  previous_expires_at: string | null
  previous_last_used_at: string | null
  previous_last_used_ip: string | null
}
type Account = Pick<Caller, 'accountId'>

/**
 * Principals who may know the token of a key: its owner, everyone who created or rotated it or a key above it, and the
 * owners of those keys.
 */
export const holdersOf = (accountId: Uuid, key: Id<'ak'> | SqlFragment): SqlFragment => sql`
  array(
    select k.owner_id from api_keys k where ${isKeyOrAbove(accountId, key)}
    union select unnest(k.issuers) from api_keys k where ${isKeyOrAbove(accountId, key)})`

function isKeyOrAbove(accountId: Uuid, key: Id<'ak'> | SqlFragment): SqlFragment {
  const id = typeof key === 'string' ? sql`${toUuid(key)}::uuid` : key
  return sql`
  k.account_id = ${accountId} and k.id = any(array(
    select ancestor_id from api_key_ancestors a where a.account_id = ${accountId} and a.api_key_id = ${id}
  ) || ${id})`
}

export const holdersOfKeyOf = async (db: Db, { accountId, apiKeyId, ownerId }: Caller): Promise<Uuid[]> => {
  const { holders } = await one<{ holders: Uuid[] }>(db, sql`select ${holdersOf(accountId, apiKeyId)} as holders`)
  return [...new Set([toUuid(ownerId), ...holders])]
}

const columns = sql`k.id, k.owner_id, k.owner_kind, k.created_by_key_id, k.description, k.metadata, k.created_at,
      k.expires_at, k.scopes, k.allowed_cidrs, k.rotated_at`
/** Adds the data of other tables. Inserted and deleted rows have none. */
const keys = sql`
    select ${columns}, u.last_used_at, host(u.last_used_ip) as last_used_ip, t.expires_at as previous_expires_at,
      t.last_used_at as previous_last_used_at, host(t.last_used_ip) as previous_last_used_ip
    from api_keys k
      left join api_key_uses u on u.account_id = k.account_id and u.api_key_id = k.id
      left join api_key_previous_tokens t
        on t.account_id = k.account_id and t.api_key_id = k.id and t.expires_at > statement_timestamp()`
const noUsageColumns = sql`null as last_used_at, null as last_used_ip, null as previous_expires_at,
      null as previous_last_used_at, null as previous_last_used_ip`

const descendantsOf = (accountId: Uuid, id: Id<'ak'>) => sql`
        select api_key_id from api_key_ancestors where account_id = ${accountId} and ancestor_id = ${toUuid(id)}`

/** Limits of living keys above one key, and of keys below it that one request deletes. */
export const maxAncestors = 100
export const maxDescendants = 10_000

const lineageOf = (accountId: Uuid, parentId: Id<'ak'>) => sql`
    select id, scopes, allowed_cidrs from api_keys
    where account_id = ${accountId} and id = any(
      array(select ancestor_id from api_key_ancestors
            where account_id = ${accountId} and api_key_id = ${toUuid(parentId)}) || ${toUuid(parentId)}::uuid)
    order by id
    for share`

export type NewApiKey = {
  ownerId: Id<'usr' | 'bot'>
  tokenHash: Buffer
  description: string | null
  metadata: string | null
  expires_at: string | null
  grant: Grant
  /** The key that creates it; null for a command on the server. */
  createdBy: Id<'ak'> | null
  /** Set if a sign-in created it: to attach sessions to, or for `gatehouse login`. */
  signIn?: 'provider' | 'command'
  /** Others who could use it: those who linked its identity. */
  issuers?: readonly Uuid[]
}

/** Locks the owner's row, so that a concurrent deletion of the owner waits and then finds the new key. */
const activeOwner = (accountId: Uuid, ownerId: Id<'usr' | 'bot'>) => sql`
      select id, kind from principals
      where account_id = ${accountId} and id = ${toUuid(ownerId)} and active
        and kind = ${ownerId.startsWith('usr_') ? 'user' : 'bot'}`

const insertForOwner = (accountId: Uuid, key: NewApiKey, id = newUuid()) => sql`
    insert into api_keys as k
      (account_id, id, owner_id, owner_kind, token_hash, description, metadata, expires_at, scopes, allowed_cidrs,
       created_by_key_id, sign_in, issuers)
    select ${accountId}, ${id}, owner.id, owner.kind, ${key.tokenHash}, ${key.description}, ${key.metadata},
      ${key.expires_at}::timestamptz, ${key.grant.scopes}::text[], ${key.grant.allowedCidrs}::cidr[],
      ${key.createdBy && toUuid(key.createdBy)}::uuid, ${key.signIn ?? null},
      ${key.createdBy ? holdersOf(accountId, key.createdBy) : sql`'{}'::uuid[]`} || ${key.issuers ?? []}::uuid[]
    from owner
    returning ${columns}, ${noUsageColumns}`

/** Resolves to undefined if the owner is not an active user or bot of the account. */
export const insertApiKey = (db: Db, { accountId }: Account, key: NewApiKey) =>
  maybeOne<ApiKeyRow>(
    db,
    sql`with owner as (${activeOwner(accountId, key.ownerId)} for key share) ${insertForOwner(accountId, key)}`,
  )

type Parent = Account & Grant & { apiKeyId: Id<'ak'> }

/** Inserts a key with its lineage, if its parent still has the rights seen at authentication. */
const insertBelow = ({ accountId, apiKeyId, scopes, allowedCidrs }: Parent, key: NewApiKey, id?: Uuid) =>
  // Locks the owner after the lineage, in the same order as the separate statements do.
  sql`
    with held as (${lineageOf(accountId, apiKeyId)}), owner as (${activeOwner(accountId, key.ownerId)}
        and (select count(*) from held) <= ${maxAncestors}
        and exists (
          select from held
          where id = ${toUuid(apiKeyId)} and scopes = ${scopes}::text[] and allowed_cidrs = ${allowedCidrs}::cidr[])
      for key share
    ), made as (${insertForOwner(accountId, key, id)}), below as (
      insert into api_key_ancestors (account_id, ancestor_id, api_key_id)
      select ${accountId}, held.id, made.id from held, made
    )`

/**
 * Inserts the key and its lineage in one statement. Resolves to undefined if any condition fails; `holdLineage` then
 * finds the reason.
 */
export const insertApiKeyBelow = (tx: Db, parent: Parent, key: NewApiKey) =>
  maybeOne<ApiKeyRow>(tx, sql`${insertBelow(parent, key)} select * from made`)

/** Also writes the audit event, in a transaction of its own. */
export async function createApiKeyBelow(
  db: DbPool,
  parent: Parent,
  key: NewApiKey & { id: Uuid },
  quotas: Quotas,
  event: (created: SqlFragment) => SqlFragment,
): Promise<ApiKeyRow | undefined> {
  const [row] = await changeAtOnce<ApiKeyRow>(
    db,
    sql`${insertBelow(parent, key, key.id)}, event as (${event(sql`made`)}) select * from made`,
    quotaChecks(parent, { kind: 'api_keys', added: 1, quotas }),
  )
  return row
}

export const findApiKey = (db: Db, { accountId }: Account, id: Id<'ak'>, lock: boolean) =>
  maybeOne<ApiKeyRow>(
    db,
    sql`
    ${keys}
    where k.account_id = ${accountId} and k.id = ${toUuid(id)} ${lock ? sql`for update of k` : nothing}`,
  )

export const listApiKeys = (
  db: Db,
  { accountId }: Account,
  query: PageQuery & { before_id?: Id<'ak'>; owner_id?: Id<'usr' | 'bot'>; descendants_of?: Id<'ak'> },
) =>
  many<ApiKeyRow>(
    db,
    sql`
    ${keys}
    where k.account_id = ${accountId} ${query.before_id ? sql`and k.id < ${toUuid(query.before_id)}` : nothing}
      ${query.owner_id ? sql`and k.owner_id = ${toUuid(query.owner_id)} and k.owner_kind = ${query.owner_id.startsWith('usr_') ? 'user' : 'bot'}` : nothing}
      ${query.descendants_of ? sql`and k.id in (${descendantsOf(accountId, query.descendants_of)})` : nothing}
    order by k.id desc
    limit ${rowsToFetch(query)}`,
  )

export const updateApiKey = (
  db: Db,
  { accountId }: Account,
  id: Id<'ak'>,
  fields: Pick<ApiKeyRow, 'description' | 'metadata' | 'expires_at' | 'scopes' | 'allowed_cidrs'>,
) =>
  later(
    db,
    sql`
    update api_keys
    set description = ${fields.description}, metadata = ${fields.metadata}, expires_at = ${fields.expires_at},
      scopes = ${fields.scopes}::text[], allowed_cidrs = ${fields.allowed_cidrs}::cidr[]
    where account_id = ${accountId} and id = ${toUuid(id)}`,
  )

/**
 * Replaces the token of a locked key. The old token works until the overlap ends; an even older one ends now. Resolves
 * to undefined if the key has expired.
 */
export const rotateApiKey = (
  db: Db,
  { accountId, apiKeyId }: Pick<Caller, 'accountId' | 'apiKeyId'>,
  id: Id<'ak'>,
  { tokenHash, overlapSeconds }: { tokenHash: Buffer; overlapSeconds: number },
) =>
  maybeOne<{ id: Uuid }>(
    db,
    sql`
    with old as (
      select account_id, id, token_hash from api_keys
      where account_id = ${accountId} and id = ${toUuid(id)} and (expires_at is null or expires_at > statement_timestamp())
    ), replaced as (
      insert into api_key_previous_tokens (account_id, api_key_id, token_hash, expires_at)
      select account_id, id, token_hash, statement_timestamp() + make_interval(secs => ${overlapSeconds}) from old
      on conflict (account_id, api_key_id) do update set
        token_hash = excluded.token_hash, expires_at = excluded.expires_at, last_used_at = null, last_used_ip = null
      returning api_key_id
    )
    update api_keys k set token_hash = ${tokenHash}, rotated_at = statement_timestamp(),
      issuers = array(select unnest(k.issuers) union select unnest(${holdersOf(accountId, apiKeyId)}))
    from old, replaced
    where k.account_id = old.account_id and k.id = replaced.api_key_id
    returning k.id`,
  )

export const deleteApiKey = (db: Db, { accountId }: Account, id: Id<'ak'>) =>
  later(db, sql`delete from api_keys where account_id = ${accountId} and id = ${toUuid(id)}`)

export const deleteApiKeysOf = (db: Db, { accountId }: Account, ownerId: Id<'usr' | 'bot'>) =>
  many<ApiKeyRow>(
    db,
    // Locks in id order, like the writes of key uses.
    sql`
    with held as (
      select account_id, id from api_keys
      where account_id = ${accountId} and owner_id = ${toUuid(ownerId)}
      order by id
      for update
    )
    delete from api_keys k using held
    where k.account_id = held.account_id and k.id = held.id
    returning ${columns}, ${noUsageColumns}`,
  )

/**
 * Locks the living ancestors of a key about to be created with `parentId`, including the parent unless it was just
 * deleted. In id order, like revocations. `for share`: a request that narrows the parent waits, and then finds the new
 * key.
 */
export const holdLineage = (tx: Db, { accountId }: Account, parentId: Id<'ak'>) =>
  many<Pick<ApiKeyRow, 'id' | 'scopes' | 'allowed_cidrs'>>(tx, lineageOf(accountId, parentId))

export const insertLineage = (tx: Db, { accountId }: Account, id: Uuid, ancestors: readonly Uuid[]) =>
  later(
    tx,
    sql`
    insert into api_key_ancestors (account_id, ancestor_id, api_key_id)
    select ${accountId}, ancestor, ${id} from unnest(${ancestors}::uuid[]) as ancestor`,
  )

/**
 * Deletes all keys below a locked one, at most `maxDescendants` + 1. None can be added meanwhile, because that requires
 * a lock on the same row. Resolves to the deleted keys.
 *
 * Three statements with ids as values: PostgreSQL estimates one descendant per key, and with ten thousand the join
 * planned for that ran into the statement time-out.
 */
export async function deleteDescendants(tx: Db, { accountId }: Account, id: Id<'ak'>): Promise<ApiKeyRow[]> {
  const below = await many<{ api_key_id: Uuid }>(
    tx,
    sql`${descendantsOf(accountId, id)} order by api_key_id limit ${maxDescendants + 1}`,
  )
  const ids = below.map(({ api_key_id }) => api_key_id)
  // The common lock order; see holdLineage.
  await later(tx, sql`select from api_keys where account_id = ${accountId} and id = any(${ids}) order by id for update`)
  return many<ApiKeyRow>(
    tx,
    sql`
    delete from api_keys k where account_id = ${accountId} and id = any(${ids})
    returning ${columns}, ${noUsageColumns}`,
  )
}
