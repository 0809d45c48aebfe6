import { type Db, maybeOne, run } from '../db/pool.ts'
import { type SqlFragment, sql } from '../db/sql.ts'
import { Refusal } from '../kernel/errors.ts'
import { type Id, toId, type Uuid } from '../kernel/ids.ts'
import type { Address } from '../kernel/ip/address.ts'
import { everything, type Grant, mayCallFrom } from './grant.ts'
import { hashToken, isWellFormedSessionSecret, isWellFormedToken } from './token.ts'

/** From the most rights to the least: each may do what those after it may. */
export const roles = ['admin', 'member', 'viewer'] as const
export type Role = (typeof roles)[number]
export type Traffic = 'api' | 'dashboard'

/**
 * The types of IP restriction that a caller must pass. A session can do what its key can on the API: if the `dashboard`
 * restrictions alone decided about it, signing in would be a way around the `api` ones.
 */
export const restrictionTypesFor = ({ traffic }: { traffic: Traffic }): readonly Traffic[] =>
  traffic === 'api' ? ['api'] : ['dashboard', 'api']

/** Who a request speaks for. Queries take it as an argument, so that the account cannot be forgotten. */
export type Caller = Grant & {
  readonly accountId: Uuid
  readonly ownerId: Id<'usr' | 'bot'>
  readonly role: Role
  readonly apiKeyId: Id<'ak'>
  /** When the key in use expires; null for never. */
  readonly apiKeyExpiresAt: string | null
  /** When its token was last replaced, as the look-up of this request saw it. */
  readonly apiKeyRotatedAt: string | null
  /** The token that was sent, or that opened the session, has been replaced by a rotation and works for its overlap only. */
  readonly tokenReplaced: boolean
  /** A session's cookie is the dashboard's traffic, a token is the API's. */
  readonly traffic: Traffic
  /** With a cookie: the session that it is of. */
  readonly sessionId?: Id<'ses'>
  /** The kinds of resources whose changes need the approval of another admin. Empty: none. */
  readonly approvalRequiredFor: readonly string[]
  /** The operator's limit for each key of this account; null for what holds for all accounts. */
  readonly requestsPerMinute: number | null
  /** Raised by every change of the account's IP policies: what was compiled under another number is out of date. */
  readonly policyRevision: number
  /** Whether the account has a restriction that this caller must pass at all. Most have none, and need nothing looked up or kept. */
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

/** What a token or a session is good for: a caller, or nothing. */
export type Authentication = {
  readonly caller?: Caller
  /** The hash of the token that was sent, when a rotation has replaced it and it still works. */
  readonly replacedToken?: Buffer
  /** The key that has expired, for the log. The client gets the same answer as for any other wrong token. */
  readonly expiredKeyId?: Id<'ak'>
  /** Who it would be if the request did not come from outside the key's ranges, for the audit. The client gets the same answer. */
  readonly outsideRanges?: Caller
}

/**
 * One look-up by the token's hash, on every request. Nothing is cached: a deleted key and an inactive owner are
 * refused from the next request on, and a key whose time is over from that moment on, by every process alike, because
 * it is the database's clock that decides.
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
  // A token goes from current to replaced to nothing, never back: what was not found as current is replaced by now, if
  // anything. So the second look-up misses no token that a rotation overtakes, and costs only replaced and dead tokens.
  const replaced = await lookUp(db, traffic, {
    keys: sql`api_key_previous_tokens t join api_keys k on k.account_id = t.account_id and k.id = t.api_key_id`,
    matches: sql`t.token_hash = ${tokenHash}`,
    isLive: sql`t.expires_at > statement_timestamp()`,
    tokenReplaced: sql`true`,
  })
  return replaced ? { ...authentication(traffic, replaced, source), replacedToken: tokenHash } : {}
}

/** Whose token it is or was, when it is good for nothing: of an expired key, a replaced one, or of an inactive owner. */
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

/** How long a session lasts, however much it is used, and how long it lasts unused. */
export const sessionSeconds = 12 * 60 * 60
/** No parameter: without its value PostgreSQL expects a third of all sessions to be idle, and reads them all. */
const idleTime = sql`interval '1 hour'`
/** Use is noted no more often than this, so that a page that makes twenty requests makes one write. */
const noteUseSeconds = 60

const sessionIsLive = sql`
  s.expires_at > now() and s.last_used_at > now() - ${idleTime}`
/** The opposite, written so that each half can use its index. */
export const sessionHasEnded = sql`
  (s.expires_at <= now() or s.last_used_at <= now() - ${idleTime})`

/** Whether a token works for the key `k`: its present one, or the one that a rotation replaced, for its overlap. */
const isTokenOfKey = (tokenHash: SqlFragment) => sql`
  (k.token_hash = ${tokenHash} or exists (
    select from api_key_previous_tokens t
    where t.account_id = k.account_id and t.api_key_id = k.id and t.token_hash = ${tokenHash}
      and t.expires_at > statement_timestamp()))`

/**
 * The same look-up by a session, which ends together with its key or the key's token that opened it. A
 * session has its owner's rights, so only a key without limits to its scopes has one: narrowing the key ends its sessions.
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

/** The session was used, and is not idle. To be called when the request has been let in. */
export const noteSessionUse = (db: Db, { accountId }: Caller, sessionId: Uuid): Promise<void> =>
  run(
    db,
    sql`
    update dashboard_sessions set last_used_at = now()
    where account_id = ${accountId} and id = ${sessionId}
      and last_used_at < now() - make_interval(secs => ${noteUseSeconds})`,
  )

/** The key may have been rotated because its token leaked: a thief must not use the overlap to stay. */
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

/** The token of `Authorization: Bearer <token>`, or undefined for anything else, two such headers included. */
export function bearerToken(authorization: readonly string[] | undefined): string | undefined {
  return authorization?.length === 1 ? bearer.exec(authorization[0] ?? '')?.[1] : undefined
}
