import type { Clock } from '../kernel/clock.ts'
import { type Allowance, createRateLimiter, type RateLimit } from '../kernel/flow/rate_limiter.ts'
import type { Address } from '../kernel/ip/address.ts'

export type FailureLimiter = {
  readonly limit: RateLimit
  /**
   * Counts a failed authentication. Once not allowed, the address must wait before it learns that another token is
   * wrong.
   */
  readonly countFailure: (source: Address | undefined) => Allowance
}

/** Bounds memory to about 7 MiB under a flood from changing addresses. */
const maxNetworks = 100_000

/**
 * Limits wrong tokens per IPv4 address or IPv6 /64. Only failures count: many people can share an address, and a valid
 * token must keep working. Tokens cannot be guessed anyway; the limit exposes guessing scripts and slows them down.
 */
export function createFailureLimiter(clock: Clock, limit: RateLimit): FailureLimiter {
  const limiter = createRateLimiter(clock, maxNetworks)
  return { limit, countFailure: (source) => limiter.take(networkOf(source), limit) }
}

/** A client with one IPv6 address usually controls its /64. */
function networkOf(source: Address | undefined): string {
  if (!source) return 'unknown'
  return source.family === 4 ? `4 ${source.value}` : `6 ${source.w0} ${source.w1}`
}
