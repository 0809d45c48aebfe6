import type { UpstreamFailure } from './failures.ts'

const windowMs = 5_000
const mostPerAccount = 50
const mostInAll = 500

/**
 * Recorded failures are only examples, so their rate is limited: one for each backend per window, and for each account a
 * share of the node's total.
 */
export function createFailureWindow() {
  let window = 0
  let count = 0
  const backends = new Set<string>()
  const accounts = new Map<string, number>()
  return ({ account, backend }: UpstreamFailure, now: number): boolean => {
    const present = Math.floor(now / windowMs)
    if (present !== window) {
      window = present
      count = 0
      backends.clear()
      accounts.clear()
    }
    const ofAccount = accounts.get(account) ?? 0
    if (backends.has(backend) || ofAccount >= mostPerAccount || count >= mostInAll) return false
    backends.add(backend)
    accounts.set(account, ofAccount + 1)
    count++
    return true
  }
}
