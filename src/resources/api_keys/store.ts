import type { Caller } from '../../auth/caller.ts'
import { type Db, many, maybeOne, one, run } from '../../db/pool.ts'
import { nothing, sql } from '../../db/sql.ts'
import { type Id, newUuid, toUuid, type Uuid } from '../../kernel/ids.ts'
import { type PageQuery, rowsToFetch } from '../../kernel/paging.ts'

export type ApiKeyRow = {
  id: Uuid
  owner_id: Uuid
  owner_kind: 'user' | 'bot'
  description: string | null
  metadata: string | null
  created_at: string
}
type Account = Pick<Caller, 'accountId'>

const columns = sql`id, owner_id, owner_kind, description, metadata, created_at`

type NewApiKey = { ownerId: Id<'usr' | 'bot'>; tokenHash: Buffer; description: string | null; metadata: string | null }

/** Resolves to undefined when the owner is not an active user or bot of the account. */
export const insertApiKey = (db: Db, { accountId }: Account, key: NewApiKey) =>
  maybeOne<ApiKeyRow>(
    db,
    // The lock on the owner's row: whoever deletes the owner now waits, and then finds this key too.
    sql`
    with owner as (
      select id, kind from principals
      where account_id = ${accountId} and id = ${toUuid(key.ownerId)} and active
        and kind = ${key.ownerId.startsWith('usr_') ? 'user' : 'bot'}
      for key share
    )
    insert into api_keys (account_id, id, owner_id, owner_kind, token_hash, description, metadata)
    select ${accountId}, ${newUuid()}, owner.id, owner.kind, ${key.tokenHash}, ${key.description}, ${key.metadata} from owner
    returning ${columns}`,
  )

export const findApiKey = (db: Db, { accountId }: Account, id: Id<'ak'>, lock: boolean) =>
  maybeOne<ApiKeyRow>(
    db,
    sql`
    select ${columns} from api_keys
    where account_id = ${accountId} and id = ${toUuid(id)} ${lock ? sql`for update` : nothing}`,
  )

export const listApiKeys = (db: Db, { accountId }: Account, query: PageQuery & { before_id?: Id<'ak'> }) =>
  many<ApiKeyRow>(
    db,
    sql`
    select ${columns} from api_keys
    where account_id = ${accountId} ${query.before_id ? sql`and id < ${toUuid(query.before_id)}` : nothing}
    order by id desc
    limit ${rowsToFetch(query)}`,
  )

export const updateApiKey = (
  db: Db,
  { accountId }: Account,
  id: Id<'ak'>,
  fields: Pick<ApiKeyRow, 'description' | 'metadata'>,
) =>
  one<ApiKeyRow>(
    db,
    sql`
    update api_keys set description = ${fields.description}, metadata = ${fields.metadata}
    where account_id = ${accountId} and id = ${toUuid(id)}
    returning ${columns}`,
  )

export const deleteApiKey = (db: Db, { accountId }: Account, id: Id<'ak'>) =>
  run(db, sql`delete from api_keys where account_id = ${accountId} and id = ${toUuid(id)}`)

export const deleteApiKeysOf = (db: Db, { accountId }: Account, ownerId: Id<'usr' | 'bot'>) =>
  many<ApiKeyRow>(
    db,
    sql`delete from api_keys where account_id = ${accountId} and owner_id = ${toUuid(ownerId)} returning ${columns}`,
  )
