// Which failed requests may be sent again, and when. It knows no way of sending them, so that the command line, which does
// without `fetch`, decides alike.

/** What an attempt ended with: an answer, or an error code of the connection where the platform tells one. */
export type Failed =
  | { status: number; code?: string | undefined; retryAfterMs?: number | undefined }
  | { broke: string }

/** The service says so: nothing was changed. */
const nothingWasDone = new Set(['ERR_UNAVAILABLE', 'ERR_TOO_MANY_OPERATIONS', 'ERR_RATE_LIMITED'])
/** Nothing was sent. */
const neverSent = new Set(['ECONNREFUSED', 'EAI_AGAIN', 'UND_ERR_CONNECT_TIMEOUT'])
/** It may have been sent, and more. Browsers tell no code at all. */
const lost = new Set(['ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'UND_ERR_SOCKET', ''])
/** A proxy on the way says these. */
const passing = new Set([429, 502, 503, 504])

/** Whether the failure itself says that the request had no effect. */
export const wasNothingDone = (failed: Failed): boolean =>
  'broke' in failed ? neverSent.has(failed.broke) : failed.code !== undefined && nothingWasDone.has(failed.code)

function isPassing(failed: Failed): boolean {
  if ('broke' in failed) return lost.has(failed.broke)
  return failed.code === undefined ? passing.has(failed.status) : failed.code === 'ERR_OUTCOME_UNKNOWN'
}

/**
 * Whether to try again. `isRepeatable`: doing it twice is the same as doing it once. Everything is but a POST for which the
 * service does not take an Idempotency-Key.
 */
export const mayRetry = (failed: Failed, isRepeatable: boolean): boolean =>
  wasNothingDone(failed) || (isRepeatable && isPassing(failed))

export type Pauses = { readonly retries: number; readonly firstPauseMs: number; readonly maxWaitMs: number }

/**
 * How long to wait before another attempt; undefined: give up. Never shorter than the service asked for: a wait that is too
 * long is for the caller to decide on.
 */
export function pauseMs(
  failed: Failed,
  attempt: number,
  { retries, firstPauseMs, maxWaitMs }: Pauses,
): number | undefined {
  const asked = ('broke' in failed ? undefined : failed.retryAfterMs) ?? 0
  if (attempt >= retries || asked > maxWaitMs) return undefined
  const pause = Math.min(firstPauseMs * 2 ** attempt, maxWaitMs)
  // Spread, so that clients that failed together do not come back together.
  return Math.max(asked, pause * (0.75 + Math.random() / 2))
}

/** `Retry-After` has seconds or a date. */
export function retryAfterMs(header: string | null | undefined, now = Date.now()): number | undefined {
  if (!header) return undefined
  const ms = /^\d+$/.test(header) ? Number(header) * 1_000 : Date.parse(header) - now
  return Number.isNaN(ms) ? undefined : Math.max(0, ms)
}
