import type { Caller } from '../../identity/caller.ts'
import { createFailureLimiter } from '../../identity/failure_limiter.ts'
import type { Clock } from '../../kernel/clock.ts'
import { Refusal } from '../../kernel/errors.ts'
import { type Allowance, createRateLimiter, type RateLimit } from '../../kernel/flow/rate_limiter.ts'
import type { Address } from '../../kernel/ip/address.ts'

/** The limit that applied to a request, and its remaining allowance. */
export type LimitUse = {
  readonly policy: 'key' | 'account' | 'failed-authentication' | 'failed-sign-in' | 'sign-in'
  readonly limit: RateLimit
  readonly allowance: Allowance
}

/** Undefined: no limit applies. */
export type RateLimits = {
  /**
   * Counts a request against the account and the caller's key, which includes sessions opened with it. Returns the
   * tighter of both limits.
   */
  readonly countRequest: (caller: Caller) => LimitUse | undefined
  /** Counts a wrong token. */
  readonly countFailure: (source: Address | undefined, isSignIn: boolean) => LimitUse | undefined
  /** Counts sign-in requests without credentials. */
  readonly countSignIn: (source: Address | undefined) => LimitUse
}

/** Bounds memory to about 7 MiB. With more active keys, some start again with a full allowance. */
const maxKeys = 100_000
/** All keys of an account share ten times the limit of one; otherwise each new key would raise the total. */
export const accountRequestsPerMinute = (requestsPerMinute: number): number => 10 * requestsPerMinute
const perMinute = (requests: number): RateLimit => ({ requests, seconds: 60 })
/** Enough for people who mistype; programs do not sign in. */
const signInFailures = perMinute(10)
/** Many people may share an address, a waiting `login` polls every two seconds, and nodes join. */
const signInSteps = perMinute(300)

/** Each process counts separately, so n processes allow at most n times the limit. 0 disables a limit. */
export function createRateLimits(
  clock: Clock,
  settings: { requestsPerMinute: number; failuresPerMinute: number },
): RateLimits {
  const [keys, accounts] = [createRateLimiter(clock, maxKeys), createRateLimiter(clock, maxKeys)]
  const signIns = createFailureLimiter(clock, signInFailures)
  const steps = createFailureLimiter(clock, signInSteps)
  const calls = settings.failuresPerMinute
    ? createFailureLimiter(clock, perMinute(settings.failuresPerMinute))
    : undefined
  return {
    countRequest({ apiKeyId, accountId, requestsPerMinute }) {
      const requests = requestsPerMinute ?? settings.requestsPerMinute
      if (requests === 0) return undefined
      const [limit, together] = [perMinute(requests), perMinute(accountRequestsPerMinute(requests))]
      const own: LimitUse = { policy: 'key', limit, allowance: keys.take(apiKeyId, limit) }
      if (!own.allowance.allowed) return own
      const all: LimitUse = { policy: 'account', limit: together, allowance: accounts.take(accountId, together) }
      return !all.allowance.allowed || all.allowance.remaining < own.allowance.remaining ? all : own
    },
    countFailure(source, isSignIn) {
      const limiter = isSignIn ? signIns : calls
      if (!limiter) return undefined
      const policy = isSignIn ? 'failed-sign-in' : 'failed-authentication'
      return { policy, limit: limiter.limit, allowance: limiter.countFailure(source) }
    },
    countSignIn: (source) => ({ policy: 'sign-in', limit: steps.limit, allowance: steps.countFailure(source) }),
  }
}

/** As in draft-ietf-httpapi-ratelimit-headers-11. */
export const rateLimitHeaders = ({ policy, limit, allowance }: LimitUse): Record<string, string> => ({
  'RateLimit-Policy': `"${policy}";q=${limit.requests};w=${limit.seconds}`,
  RateLimit: `"${policy}";r=${allowance.remaining};t=${allowance.waitSeconds}`,
})

export function limitReached({ policy, limit, allowance: { waitSeconds } }: LimitUse): Refusal {
  const details = { retry_after_seconds: String(waitSeconds) }
  if (policy === 'key' || policy === 'account')
    return new Refusal(
      'ERR_RATE_LIMITED',
      `${policy === 'key' ? 'This API key has reached its limit' : 'The API keys of this account have reached their common limit'} of ${limit.requests} requests per minute. Nothing was changed; try again in ${waitSeconds} s.`,
      { details },
    )
  if (policy === 'sign-in')
    return new Refusal(
      'ERR_TOO_MANY_ATTEMPTS',
      `Too many sign-ins or joins were started from this address. Try again in ${waitSeconds} s.`,
      { details },
    )
  const attempts = policy === 'failed-sign-in' ? 'sign-ins' : 'requests'
  return new Refusal(
    'ERR_TOO_MANY_ATTEMPTS',
    `The token is not valid, and too many ${attempts} from this address have failed. Try again in ${waitSeconds} s.`,
    { details },
  )
}
