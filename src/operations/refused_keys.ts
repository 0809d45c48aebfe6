import type { DbPool } from '../db/pool.ts'
import type { Caller } from '../identity/caller.ts'
import type { Origin } from '../identity/origin.ts'
import type { Clock } from '../kernel/clock.ts'
import { createRateLimiter } from '../kernel/flow/rate_limiter.ts'
import { recordChange } from './audit.ts'

// A leaked token can be refused any number of times, which must not fill the audit log.
const eventsPerKey = { requests: 10, seconds: 60 }
const maxKeys = 10_000

/**
 * Audits that a key was refused, and why; the response does not reveal it. Not awaited, so that the response time does
 * not reveal it either.
 */
export function createRefusedKeyRecorder(
  db: DbPool,
  clock: Clock,
  onError: (error: unknown) => void,
): (origin: Origin & { caller: Caller }) => void {
  const limiter = createRateLimiter(clock, maxKeys)
  return ({ operation, ...origin }) => {
    const { apiKeyId } = origin.caller
    if (!limiter.take(apiKeyId, eventsPerKey).allowed) return
    recordChange(
      db,
      { ...origin, operation: 'server.refuse_api_key' },
      { resourceId: apiKeyId, before: null, after: { reason: 'source_ip is outside allowed_cidrs', operation } },
    ).catch(onError)
  }
}
