import type { Clock } from '../clock.ts'

/** A burst of `requests`, refilled over each period. */
export type RateLimit = { readonly requests: number; readonly seconds: number }

/** The remaining allowance after a request. */
export type Allowance = {
  readonly allowed: boolean
  readonly remaining: number
  /**
   * Seconds, rounded up: if refused, until the next request is allowed; otherwise, until the allowance is full again.
   */
  readonly waitSeconds: number
}

export type RateLimiter = {
  /** Takes one request from the owner's allowance, or none if it is used up. */
  readonly take: (owner: string, limit: RateLimit) => Allowance
  /** Number of owners in memory. */
  readonly size: () => number
}

/**
 * The generic cell rate algorithm: one number per owner, the time at which its allowance is full again. It needs less
 * memory than a token bucket at similar cost and, unlike a window, has no boundary at which twice the limit passes;
 * `node --expose-gc bench/rate_limiter.ts` compares them. Each process counts separately.
 *
 * Owners are kept in two generations. Once the younger holds half of `maxOwners`, the older is dropped: recent owners
 * stay, and a flood of new ones has bounded cost. A dropped owner starts with a full allowance.
 */
export function createRateLimiter(clock: Clock, maxOwners: number): RateLimiter {
  // Relative to the start, so that a double keeps fractions of a millisecond.
  const start = clock()
  let young = new Map<string, number>()
  let old = new Map<string, number>()

  function remember(owner: string, completeAt: number): void {
    if (young.size >= maxOwners / 2 && !young.has(owner)) {
      old = young
      young = new Map()
    }
    young.set(owner, completeAt)
  }

  return {
    size: () => young.size + old.size,
    take(owner, { requests, seconds }) {
      const now = clock() - start
      const periodMs = seconds * 1_000
      const costMs = periodMs / requests
      const completeAt = Math.max(young.get(owner) ?? old.get(owner) ?? 0, now) + costMs
      // Tolerance, so that rounding never refuses an owner's last request.
      const overMs = completeAt - now - periodMs
      if (overMs > costMs / 1_000) {
        return { allowed: false, remaining: 0, waitSeconds: Math.ceil(overMs / 1_000) }
      }
      remember(owner, completeAt)
      return {
        allowed: true,
        remaining: Math.floor((periodMs - (completeAt - now)) / costMs + 1 / 1_000),
        waitSeconds: Math.ceil((completeAt - now) / 1_000),
      }
    },
  }
}
