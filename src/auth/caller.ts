import { type Db, maybeOne } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { type Id, toId, type Uuid } from '../kernel/ids.ts'
import { hashToken, isWellFormedToken } from './token.ts'

export type Role = 'admin' | 'member'

/** Who a request speaks for. Queries take it as an argument, so that the account cannot be forgotten. */
export type Caller = {
  readonly accountId: Uuid
  readonly ownerId: Id<'usr' | 'bot'>
  readonly role: Role
  readonly apiKeyId: Id<'ak'>
  /** Raised by every change of the account's IP policies: what was compiled under another number is out of date. */
  readonly policyRevision: number
  /** Whether the account has an `api` IP restriction at all. Most have none, and need nothing looked up or kept. */
  readonly apiRestricted: boolean
}

type CallerRow = {
  account_id: Uuid
  key_id: Uuid
  owner_id: Uuid
  kind: 'user' | 'bot'
  role: Role
  policy_revision: number
  api_restricted: boolean
}

/**
 * One look-up by the token's hash, on every request. Nothing is cached: a deleted key and an inactive owner are
 * refused from the next request on, by every process.
 */
export async function findCaller(db: Db, token: string | undefined): Promise<Caller | undefined> {
  if (token === undefined || !isWellFormedToken(token)) return undefined
  const row = await maybeOne<CallerRow>(
    db,
    sql`
    select k.account_id, k.id as key_id, p.id as owner_id, p.kind, p.role, a.policy_revision,
      exists (select from ip_restrictions r where r.account_id = a.id and r.type = 'api') as api_restricted
    from api_keys k
      join principals p on p.account_id = k.account_id and p.id = k.owner_id
      join accounts a on a.id = k.account_id
    where k.token_hash = ${hashToken(token)} and p.active`,
  )
  if (!row) return undefined
  return {
    accountId: row.account_id,
    ownerId: toId(row.kind === 'user' ? 'usr' : 'bot', row.owner_id),
    role: row.role,
    apiKeyId: toId('ak', row.key_id),
    policyRevision: row.policy_revision,
    apiRestricted: row.api_restricted,
  }
}

const bearer = /^Bearer ([^\s,]+)$/i

/** The token of `Authorization: Bearer <token>`, or undefined for anything else, two such headers included. */
export function bearerToken(authorization: readonly string[] | undefined): string | undefined {
  return authorization?.length === 1 ? bearer.exec(authorization[0] ?? '')?.[1] : undefined
}
