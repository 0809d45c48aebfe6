import type { Clock } from '../kernel/clock.ts'
import { type Allowance, createRateLimiter, type RateLimit } from '../kernel/flow/rate_limiter.ts'
import type { Address } from '../kernel/ip/address.ts'

export type FailureLimiter = {
  readonly limit: RateLimit
  /** Counts a failed authentication. Not allowed: the address has to wait before it hears again that a token is wrong. */
  readonly countFailure: (source: Address | undefined) => Allowance
}

/** Bounds memory under a flood from ever-changing addresses to some 7 MiB. */
const maxNetworks = 100_000

/**
 * Limits wrong tokens from one IPv4 address or IPv6 /64. Only failures come here: many people can share one address, and a
 * good token must work despite the others there. Tokens are safe because they cannot be guessed; the limit makes a
 * guessing script visible and slows it down.
 */
export function createFailureLimiter(clock: Clock, limit: RateLimit): FailureLimiter {
  const limiter = createRateLimiter(clock, maxNetworks)
  return { limit, countFailure: (source) => limiter.take(networkOf(source), limit) }
}

/** A client with one IPv6 address usually has the whole /64. */
function networkOf(source: Address | undefined): string {
  if (!source) return 'unknown'
  return source.family === 4 ? `4 ${source.value}` : `6 ${source.w0} ${source.w1}`
}
