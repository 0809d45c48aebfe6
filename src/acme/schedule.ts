import { AcmeProblem } from './problems.ts'

const minuteMs = 60_000
const hourMs = 60 * minuteMs
const dayMs = 24 * hourMs
/** Authorities limit failed validations per hour; the first retries must not exhaust that. */
const firstBackOffMs = 5 * minuteMs
const longestBackOffMs = 6 * hourMs
/** An unreachable authority counts no failures, and short-lived certificates cannot wait long after it returns. */
const longestWithoutAnswerMs = 15 * minuteMs
const ariEveryMs = 6 * hourMs
/** The operator may have added what was missing. Changes by accounts schedule an attempt themselves. */
export const unmetEveryMs = hourMs

/** Two thirds of the lifetime, if the authority suggests nothing. */
export const renewalOf = (notBefore: number, notAfter: number): number =>
  notBefore + Math.floor(((notAfter - notBefore) * 2) / 3)

/** A random time in the window, which spreads renewals. Keeps the earlier choice if it still lies in the window. */
export const pickedFrom = (
  window: { from: number; to: number },
  before: number | null,
  random: () => number,
): number =>
  before !== null && before >= window.from && before <= window.to
    ? before
    : Math.floor(window.from + (window.to - window.from) * random())

/** When to read the authority's suggestion again if nothing is due before. */
export const nextLook = (now: number, renewsAt: number, retryAfterMs: number | undefined): number =>
  Math.min(renewsAt, now + Math.min(Math.max(retryAfterMs ?? ariEveryMs, hourMs), dayMs))

/**
 * Minimum time between two certificates for one domain, even if an authority suggests less: a tenth of the lifetime, at
 * most one hour.
 */
export const spacingMs = (notBefore: number, notAfter: number): number => Math.min((notAfter - notBefore) / 10, hourMs)

/** Triples up to a limit, with 20 % jitter, and never before the time that the authority allows. */
export function backOffMs(error: unknown, failures: number, random: () => number): number {
  const isAway = error instanceof AcmeProblem && (error.type === 'unreachable' || error.status >= 500)
  const longest = isAway ? longestWithoutAnswerMs : longestBackOffMs
  const grown = Math.min(firstBackOffMs * 3 ** Math.min(failures, 10), longest) * (0.8 + 0.4 * random())
  return Math.max(grown, leastPauseMs(error))
}

/** The authority's minimum pause. Requests for another attempt cannot shorten it. */
export function leastPauseMs(error: unknown): number {
  if (!(error instanceof AcmeProblem)) return minuteMs
  return Math.max(error.retryAfterMs ?? (error.type === 'rateLimited' ? hourMs : 0), minuteMs)
}
