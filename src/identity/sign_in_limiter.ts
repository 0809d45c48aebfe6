import type { Clock } from '../kernel/clock.ts'
import type { Address } from '../kernel/ip/address.ts'

export type SignInLimiter = {
  /** Counts a failed sign-in. Returns how many seconds the address must wait; 0 while it is below the limit. */
  readonly countFailure: (source: Address | undefined) => number
}

const windowMs = 60_000
const maxFailures = 10
// Bounds memory under a flood from ever-changing addresses. The oldest is forgotten first.
const maxAddresses = 20_000

/**
 * Ten failures a minute from one IPv4 address or IPv6 /64; further failures have to wait. Only failures come here:
 * many people can share one address, and a good token must work whatever the others there do. Each process counts for
 * itself. Tokens are safe because they cannot be guessed; the limit makes a guessing script visible and slows it down.
 */
export function createSignInLimiter(clock: Clock): SignInLimiter {
  const windows = new Map<string, { until: number; failures: number }>()
  return {
    countFailure(source) {
      const key = networkOf(source)
      const now = clock()
      const known = windows.get(key)
      if (known && known.until > now) {
        if (known.failures >= maxFailures) return Math.ceil((known.until - now) / 1_000)
        known.failures++
        return 0
      }
      windows.delete(key)
      windows.set(key, { until: now + windowMs, failures: 1 })
      if (windows.size > maxAddresses) windows.delete(windows.keys().next().value as string)
      return 0
    },
  }
}

/** Whoever has one IPv6 address usually has the 2^64 around it. */
function networkOf(source: Address | undefined): string {
  if (!source) return 'unknown'
  return source.family === 4 ? `4 ${source.value}` : `6 ${source.w0} ${source.w1}`
}
