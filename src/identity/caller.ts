import { type Db, maybeOne, run } from '../db/pool.ts'
import { type SqlFragment, sql } from '../db/sql.ts'
import { Refusal } from '../kernel/errors.ts'
import { type Id, toId, type Uuid } from '../kernel/ids.ts'
import type { Address } from '../kernel/ip/address.ts'
import { everything, type Grant, mayCallFrom } from './grant.ts'
import { hashToken, isWellFormedSessionSecret, isWellFormedToken } from './token.ts'

/** Ordered by rights: each role may do everything that the roles after it may. */
export const roles = ['admin', 'member', 'viewer'] as const
export type Role = (typeof roles)[number]
export type Traffic = 'api' | 'dashboard'

/**
 * The restrictions that a caller must pass. A session can call the whole API, so it must pass the `api` restrictions
 * too; otherwise signing in would bypass them.
 */
export const restrictionTypesFor = ({ traffic }: { traffic: Traffic }): readonly Traffic[] =>
  traffic === 'api' ? ['api'] : ['dashboard', 'api']

/**
 * The principal, key and account behind a request. Queries take it as an argument, so that the account cannot be
 * forgotten.
 */
export type Caller = Grant & {
  readonly accountId: Uuid
  readonly ownerId: Id<'usr' | 'bot'>
  readonly role: Role
  readonly apiKeyId: Id<'ak'>
  /** Expiry of the key in use; null for never. */
  readonly apiKeyExpiresAt: string | null
  /** When its token was last replaced, as of this request's look-up. */
  readonly apiKeyRotatedAt: string | null
  /** A rotation has replaced the token of this request or session; it works only during the overlap. */
  readonly tokenReplaced: boolean
  /** A session cookie is dashboard traffic, a token is API traffic. */
  readonly traffic: Traffic
  /** Set if a cookie authenticated the request. */
  readonly sessionId?: Id<'ses'>
  /** Kinds of resources whose changes need another admin's approval. Empty: none. */
  readonly approvalRequiredFor: readonly string[]
  /** The operator's limit per key of this account; null for the default. */
  readonly requestsPerMinute: number | null
  /** Raised by every change of the account's IP policies; policies compiled for another revision are outdated. */
  readonly policyRevision: number
  /** Whether any restriction of the account applies to this caller. Most accounts have none and need no look-up. */
  readonly restricted: boolean
}

type CallerRow = {
  account_id: Uuid
  key_id: Uuid
  owner_id: Uuid
  kind: 'user' | 'bot'
  role: Role
  policy_revision: number
  requests_per_minute: number | null
  approval_required_for: string[]
  restricted: boolean
  session_id: Uuid | null
  expires_at: string | null
  rotated_at: string | null
  scopes: string[]
  allowed_cidrs: string[]
  token_replaced: boolean
  live: boolean
}

/** Result of authenticating a token or a session. */
export type Authentication = {
  readonly caller?: Caller
  /** Hash of the token, if a rotation has replaced it and it still works. */
  readonly replacedToken?: Buffer
  /** The expired key, for the log. The client gets the same response as for any wrong token. */
  readonly expiredKeyId?: Id<'ak'>
  /**
   * The caller, if the request came from outside the key's ranges; for the audit log. The client gets the same
   * response.
   */
  readonly outsideRanges?: Caller
}

/**
 * Looks the token up by its hash on every request. Nothing is cached: a deleted key, an inactive owner and an expired
 * key are refused with the next request in every process. The database's clock decides about expiry.
 */
export async function findCaller(
  db: Db,
  token: string | undefined,
  source: Address | undefined,
  traffic: Traffic = 'api',
): Promise<Authentication> {
  if (token === undefined || !isWellFormedToken(token)) return {}
  const tokenHash = hashToken(token)
  const current = await lookUp(db, traffic, { keys: sql`api_keys k`, matches: sql`k.token_hash = ${tokenHash}` })
  if (current) return authentication(traffic, current, source)
  // A token goes from current to replaced to deleted, never back. Looking up replaced tokens second therefore cannot
  // miss one during a rotation, and only replaced and invalid tokens pay for it.
  const replaced = await lookUp(db, traffic, {
    keys: sql`api_key_previous_tokens t join api_keys k on k.account_id = t.account_id and k.id = t.api_key_id`,
    matches: sql`t.token_hash = ${tokenHash}`,
    isLive: sql`t.expires_at > statement_timestamp()`,
    tokenReplaced: sql`true`,
  })
  return replaced ? { ...authentication(traffic, replaced, source), replacedToken: tokenHash } : {}
}

/** Finds the owner of a token that no longer works: its key is expired or rotated, or its owner is inactive. */
export async function findKeyOfToken(db: Db, token: string) {
  if (!isWellFormedToken(token)) return undefined
  const tokenHash = hashToken(token)
  const row = await maybeOne<Pick<CallerRow, 'account_id' | 'key_id' | 'owner_id' | 'kind'> & Dead>(
    db,
    sql`
    select k.account_id, k.id as key_id, k.owner_id, p.kind, p.active, found.replaced
    from (
        select account_id, id, false as replaced from api_keys where token_hash = ${tokenHash}
        union all
        select account_id, api_key_id, true from api_key_previous_tokens where token_hash = ${tokenHash}
      ) found
      join api_keys k on k.account_id = found.account_id and k.id = found.id
      join principals p on p.account_id = k.account_id and p.id = k.owner_id
    limit 1`,
  )
  return (
    row && {
      accountId: row.account_id,
      apiKeyId: toId('ak', row.key_id),
      ownerId: toId(row.kind === 'user' ? 'usr' : 'bot', row.owner_id),
      isActive: row.active,
      isReplaced: row.replaced,
    }
  )
}
type Dead = { active: boolean; replaced: boolean }

/** Absolute lifetime of a session. `idleTime` ends it earlier if unused. */
export const sessionSeconds = 12 * 60 * 60
/** Not a parameter: for an unknown value, PostgreSQL expects a third of all sessions to be idle and scans them all. */
const idleTime = sql`interval '1 hour'`
/** Records use at most this often, so that a page with twenty requests causes one write. */
const noteUseSeconds = 60

const sessionIsLive = sql`
  s.expires_at > now() and s.last_used_at > now() - ${idleTime}`
/** Negates the condition of live sessions, in a form in which each half can use its index. */
export const sessionHasEnded = sql`
  (s.expires_at <= now() or s.last_used_at <= now() - ${idleTime})`

/** Whether the token is the current one of key `k`, or its predecessor during the overlap. */
const isTokenOfKey = (tokenHash: SqlFragment) => sql`
  (k.token_hash = ${tokenHash} or exists (
    select from api_key_previous_tokens t
    where t.account_id = k.account_id and t.api_key_id = k.id and t.token_hash = ${tokenHash}
      and t.expires_at > statement_timestamp()))`

/**
 * Looks up a session, which ends with its key or with the token that opened it. A session has its owner's rights, so
 * only keys with unlimited scopes can have one; narrowing a key's scopes ends its sessions.
 */
export async function findCallerBySession(
  db: Db,
  secret: string | undefined,
  source: Address | undefined,
): Promise<Authentication> {
  if (secret === undefined || !isWellFormedSessionSecret(secret)) return {}
  const found = await lookUp(db, 'dashboard', {
    keys: sql`dashboard_sessions s join api_keys k on k.account_id = s.account_id and k.id = s.api_key_id`,
    sessionId: sql`s.id`,
    tokenReplaced: sql`s.token_hash <> k.token_hash`,
    matches: sql`
      s.secret_hash = ${hashToken(secret)} and p.kind = 'user' and ${everything} = any(k.scopes)
      and ${isTokenOfKey(sql`s.token_hash`)} and ${sessionIsLive}`,
  })
  return found ? authentication('dashboard', found, source) : {}
}

/** Records use of a session, which keeps it from timing out. Call it after the request was let in. */
export const noteSessionUse = (db: Db, { accountId }: Caller, sessionId: Uuid): Promise<void> =>
  run(
    db,
    sql`
    update dashboard_sessions set last_used_at = now()
    where account_id = ${accountId} and id = ${sessionId}
      and last_used_at < now() - make_interval(secs => ${noteUseSeconds})`,
  )

/** The key may have been rotated because its token leaked, so a replaced token must not create new credentials. */
export const tokenReplaced = ({ sessionId }: Caller): Refusal =>
  new Refusal(
    'ERR_TOKEN_REPLACED',
    sessionId
      ? 'The token that opened this session was replaced, so the session cannot manage keys. Sign in again with the new token.'
      : 'This token was replaced by a rotation. Until the overlap ends it can call the API, but it cannot manage keys or sign in. Use the new token.',
  )

type Where = {
  keys: SqlFragment
  sessionId?: SqlFragment
  matches: SqlFragment
  isLive?: SqlFragment
  tokenReplaced?: SqlFragment
}

const lookUp = (db: Db, traffic: Traffic, { keys, sessionId, matches, isLive, tokenReplaced }: Where) =>
  maybeOne<CallerRow>(
    db,
    sql`
    select k.account_id, k.id as key_id, k.expires_at, k.rotated_at, k.scopes, k.allowed_cidrs,
      p.id as owner_id, p.kind, p.role, a.policy_revision, a.requests_per_minute, a.approval_required_for,
      ${tokenReplaced ?? sql`false`} as token_replaced,
      ${sessionId ?? sql`null::uuid`} as session_id,
      exists (select from ip_restrictions r where r.account_id = a.id and r.type = any(${restrictionTypesFor({ traffic })})) as restricted,
      (k.expires_at is null or k.expires_at > statement_timestamp()) and ${isLive ?? sql`true`} as live
    from ${keys}
      join principals p on p.account_id = k.account_id and p.id = k.owner_id
      join accounts a on a.id = k.account_id
    where ${matches} and p.active`,
  )

function authentication(traffic: Traffic, row: CallerRow, source: Address | undefined): Authentication {
  const apiKeyId = toId('ak', row.key_id)
  if (!row.live) return { expiredKeyId: apiKeyId }
  const caller = {
    accountId: row.account_id,
    ownerId: toId(row.kind === 'user' ? 'usr' : 'bot', row.owner_id),
    role: row.role,
    apiKeyId,
    apiKeyExpiresAt: row.expires_at,
    apiKeyRotatedAt: row.rotated_at,
    scopes: row.scopes,
    allowedCidrs: row.allowed_cidrs,
    tokenReplaced: row.token_replaced,
    traffic,
    ...(row.session_id && { sessionId: toId('ses', row.session_id) }),
    approvalRequiredFor: row.approval_required_for,
    requestsPerMinute: row.requests_per_minute,
    policyRevision: row.policy_revision,
    restricted: row.restricted,
  }
  return mayCallFrom(caller, source) ? { caller } : { outsideRanges: caller }
}

const bearer = /^Bearer ([^\s,]+)$/i

/** The token of `Authorization: Bearer <token>`; undefined for anything else, including two such headers. */
export function bearerToken(authorization: readonly string[] | undefined): string | undefined {
  return authorization?.length === 1 ? bearer.exec(authorization[0] ?? '')?.[1] : undefined
}
