import type { Clock } from '../clock.ts'

/** So many at once, and as many again in each period. */
export type RateLimit = { readonly requests: number; readonly seconds: number }

/** What is left after a request. */
export type Allowance = {
  readonly allowed: boolean
  readonly remaining: number
  /** Refused: until the next one is allowed. Otherwise: until all are there again. In seconds, rounded up. */
  readonly waitSeconds: number
}

export type RateLimiter = {
  /** Takes one from the owner's allowance, or nothing when there is none left. */
  readonly take: (owner: string, limit: RateLimit) => Allowance
  /** How many owners are remembered. */
  readonly size: () => number
}

/**
 * The generic cell rate algorithm: one number for each owner, the time at which its allowance is complete again. It takes
 * less memory than a token bucket, at a similar cost, and unlike a window it has no boundary where twice the limit passes
 * at once; `node --expose-gc bench/rate_limiter.ts` compares them. Each process counts for itself.
 *
 * Owners are in two generations. When the younger has half of `maxOwners`, the older is forgotten: recent owners stay, and
 * a flood of new ones costs bounded memory and no search. A forgotten owner starts afresh.
 */
export function createRateLimiter(clock: Clock, maxOwners: number): RateLimiter {
  // Counted from the start, so that fractions of a millisecond survive in a double.
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
      // Rounding must not cost anyone their last request.
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
