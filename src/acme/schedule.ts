import { AcmeProblem } from './problems.ts'

const minuteMs = 60_000
const hourMs = 60 * minuteMs
const dayMs = 24 * hourMs
/** Authorities count failed validations by the hour: the first tries must not use them up. */
const firstBackOffMs = 5 * minuteMs
const longestBackOffMs = 6 * hourMs
/** An authority that is down counts nothing, and certificates of short life cannot wait for long after it is back. */
const longestWithoutAnswerMs = 15 * minuteMs
const ariEveryMs = 6 * hourMs
/** What is missing may have been set by the operator meanwhile; what accounts do comes by itself. */
export const unmetEveryMs = hourMs

/** Two thirds of the lifetime, for an authority that suggests nothing. */
export const renewalOf = (notBefore: number, notAfter: number): number =>
  notBefore + Math.floor(((notAfter - notBefore) * 2) / 3)

/** Somewhere in the window, so that not everybody comes at its beginning; what was chosen before stays if it is in it. */
export const pickedFrom = (
  window: { from: number; to: number },
  before: number | null,
  random: () => number,
): number =>
  before !== null && before >= window.from && before <= window.to
    ? before
    : Math.floor(window.from + (window.to - window.from) * random())

/** While nothing is due: when the authority's suggestion is worth reading again. */
export const nextLook = (now: number, renewsAt: number, retryAfterMs: number | undefined): number =>
  Math.min(renewsAt, now + Math.min(Math.max(retryAfterMs ?? ariEveryMs, hourMs), dayMs))

/** Least time between two certificates for one domain, even if an authority suggests less: a part of their lifetime, and at most an hour. */
export const spacingMs = (notBefore: number, notAfter: number): number => Math.min((notAfter - notBefore) / 10, hourMs)

/** Threefold each time, up to a limit, and a fifth more or less; never earlier than the authority allows. */
export function backOffMs(error: unknown, failures: number, random: () => number): number {
  const isAway = error instanceof AcmeProblem && (error.type === 'unreachable' || error.status >= 500)
  const longest = isAway ? longestWithoutAnswerMs : longestBackOffMs
  const grown = Math.min(firstBackOffMs * 3 ** Math.min(failures, 10), longest) * (0.8 + 0.4 * random())
  return Math.max(grown, leastPauseMs(error))
}

/** The pause that the authority asks for, which a request for another attempt cannot shorten. */
export function leastPauseMs(error: unknown): number {
  if (!(error instanceof AcmeProblem)) return minuteMs
  return Math.max(error.retryAfterMs ?? (error.type === 'rateLimited' ? hourMs : 0), minuteMs)
}
