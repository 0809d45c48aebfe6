import type { UpstreamFailure } from './failures.ts'

const windowMs = 5_000
const mostPerAccount = 50
const mostInAll = 500

/**
 * What is noted of failures is only an example of what happens, so it is bounded by time: one for each backend, and for
 * each account no more than a part of what the node notes.
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
