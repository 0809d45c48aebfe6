import type { Clock } from '../kernel/clock.ts'
import type { Address } from '../kernel/ip/address.ts'

export type Brake = {
  /** Counts an attempt, and says how many seconds this address has to wait before it may make it; 0: go on. */
  readonly attempt: (source: Address | undefined) => number
  /** The attempt was good, and does not count. */
  readonly forgive: (source: Address | undefined) => void
}

const windowMs = 60_000
const mostFailures = 10
// So that a flood from ever new addresses stays a few megabytes. Whoever is forgotten begins anew.
const mostAddresses = 20_000

/**
 * Ten failures a minute from one IPv4 address or IPv6 network, then nothing until the minute is over. Counted before
 * the outcome is known, or a thousand attempts at once would all be the first. Each process counts for itself: this is
 * not what makes tokens safe, but what keeps a script that tries them from being a load.
 */
export function createBrake(clock: Clock): Brake {
  const windows = new Map<string, { until: number; failures: number }>()
  return {
    attempt(source) {
      const key = networkOf(source)
      const now = clock()
      const known = windows.get(key)
      if (known && known.until > now) {
        if (known.failures >= mostFailures) return Math.ceil((known.until - now) / 1_000)
        known.failures++
        return 0
      }
      windows.delete(key)
      windows.set(key, { until: now + windowMs, failures: 1 })
      if (windows.size > mostAddresses) windows.delete(windows.keys().next().value as string)
      return 0
    },
    forgive(source) {
      const known = windows.get(networkOf(source))
      if (known) known.failures--
    },
  }
}

/** Whoever has one IPv6 address usually has the 2^64 around it. */
function networkOf(source: Address | undefined): string {
  if (!source) return 'unknown'
  return source.family === 4 ? `4 ${source.value}` : `6 ${source.w0} ${source.w1}`
}
