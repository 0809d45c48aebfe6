import type { DbPool } from '../db/pool.ts'
import { type Caller, findKeyOfToken } from '../identity/caller.ts'
import type { FailedSignIn } from '../identity/failed_sign_in.ts'
import type { Clock } from '../kernel/clock.ts'
import { type ErrorCode, Refusal } from '../kernel/errors.ts'
import { createRateLimiter } from '../kernel/flow/rate_limiter.ts'
import type { Id, Uuid } from '../kernel/ids.ts'
import { recordChange } from './audit.ts'

// Anyone can send an expired or deleted token repeatedly, which must not fill the account's audit log.
const eventsPerKey = { requests: 10, seconds: 60 }
const eventsPerAccount = { requests: 60, seconds: 60 }
const maxOwners = 10_000

type Parts = {
  readonly db: DbPool
  readonly clock: Clock
  readonly count: (reason: string) => void
  readonly warn: (fields: object, message: string) => void
  readonly onError: (error: unknown) => void
}

/** Why a valid token could not sign in. Other errors do not refuse the person. */
const reasonsOfGood: Partial<Record<ErrorCode, string>> = {
  ERR_IP_REFUSED: 'address_refused',
  ERR_FORBIDDEN: 'not_a_user',
  ERR_SCOPE: 'key_limited',
  ERR_TOKEN_REPLACED: 'token_replaced',
  // The key was deleted during the sign-in.
  ERR_UNAUTHENTICATED: 'key_deleted',
}

/**
 * Audits, for the admins of the token's account, that a sign-in with a token failed, and why. Tokens that no account
 * has issued are not audited; otherwise anyone could fill the log of any account. Not awaited, so that the response
 * time does not reveal whether the token was once valid.
 */
export function createFailedSignInNotes({ db, clock, count, warn, onError }: Parts): (failure: FailedSignIn) => void {
  const keys = createRateLimiter(clock, maxOwners)
  const accounts = createRateLimiter(clock, maxOwners)

  async function note({ operationId, sourceIp, token, caller, isOutsideRanges, error }: FailedSignIn): Promise<void> {
    if (!(error instanceof Refusal)) return
    if (error.code === 'ERR_TOO_MANY_ATTEMPTS' || error.code === 'ERR_RATE_LIMITED') return count('too_many_attempts')
    const failed = caller ? ofCaller(caller, error.code) : await ofDeadToken(db, token, error.code)
    if (!failed) return
    const reason = isOutsideRanges ? 'outside_ranges' : failed.reason
    count(reason)
    const { accountId, ownerId, apiKeyId } = failed
    warn({ operation_id: operationId, reason, api_key_id: apiKeyId, source_ip: sourceIp }, 'a sign-in failed')
    if (isOutsideRanges || !accountId || !apiKeyId) return
    if (!keys.take(apiKeyId, eventsPerKey).allowed || !accounts.take(accountId, eventsPerAccount).allowed) return
    await recordChange(
      db,
      { accountId, operation: 'sign_in.failed', operationId, ...(sourceIp && { sourceIp }) },
      { resourceId: apiKeyId, before: null, after: { method: 'token', reason, owner_id: ownerId } },
    )
  }
  return (failure) => void note(failure).catch(onError)
}

type Failed = { reason: string; accountId?: Uuid; apiKeyId?: Id<'ak'>; ownerId?: Id<'usr' | 'bot'> }

function ofCaller({ accountId, apiKeyId, ownerId }: Caller, code: ErrorCode): Failed | undefined {
  const reason = reasonsOfGood[code]
  return reason === undefined ? undefined : { reason, accountId, apiKeyId, ownerId }
}

async function ofDeadToken(db: DbPool, token: string, code: ErrorCode): Promise<Failed | undefined> {
  if (code !== 'ERR_UNAUTHENTICATED') return undefined
  const key = await findKeyOfToken(db, token)
  if (!key) return { reason: 'invalid_token' }
  const { isActive, isReplaced, ...whose } = key
  return { ...whose, reason: !isActive ? 'user_inactive' : isReplaced ? 'token_replaced' : 'key_expired' }
}
