type Facts = { status?: number; retryAfterMs?: number | undefined; cause?: unknown }

/** What the authority, or the way to it, said instead of doing what it was asked (RFC 8555, 6.7). Shown to the account. */
export class AcmeProblem extends Error {
  override readonly name = 'AcmeProblem'
  /** The last part of the problem's URN, such as `rateLimited`; `unreachable` when there was no answer. */
  readonly type: string
  readonly status: number
  /** How long the authority wants to be left alone. */
  readonly retryAfterMs: number | undefined

  constructor(type: string, message: string, { status = 0, retryAfterMs, cause }: Facts = {}) {
    super(message, { cause })
    this.type = type
    this.status = status
    this.retryAfterMs = retryAfterMs
  }
}

/** Nothing has failed yet: something is missing without which no authority is asked. */
export class Unmet extends Error {
  override readonly name = 'Unmet'
  readonly code: string
  /** When to look again; undefined when it is not known. */
  readonly retryAt: number | undefined
  constructor(code: string, message: string, retryAt?: number) {
    super(message)
    this.code = code
    this.retryAt = retryAt
  }
}

type ProblemDocument = { type?: unknown; detail?: unknown; subproblems?: unknown }

/** Bounded, because it is stored and shown. */
const maxMessageLength = 800
const maxTypeLength = 60

export function problemOf(document: unknown, status: number, retryAfterMs?: number): AcmeProblem {
  const { type, detail, subproblems } = (document ?? {}) as ProblemDocument
  const more = Array.isArray(subproblems)
    ? subproblems.map(
        (each: { identifier?: { value?: unknown }; detail?: unknown }) => `${each.identifier?.value}: ${each.detail}`,
      )
    : []
  const name = typeof type === 'string' ? (type.split(':').at(-1) ?? '') : ''
  const text = [typeof detail === 'string' ? detail : `the authority answered with status ${status}`, ...more].join(' ')
  return new AcmeProblem(
    /^[A-Za-z]+$/.test(name) ? name.slice(0, maxTypeLength) : 'unknown',
    // Text of another server must not end a line of a log.
    text.replaceAll(/[^\x20-\x7e]+/g, ' ').slice(0, maxMessageLength),
    { status, retryAfterMs },
  )
}

/** Seconds, or a date; undefined when there is none, or it is nonsense. */
export function retryAfterMs(header: string | undefined, now: number): number | undefined {
  if (header === undefined) return undefined
  const ms = /^\d{1,7}$/.test(header) ? Number(header) * 1_000 : Date.parse(header) - now
  return Number.isFinite(ms) && ms >= 0 ? ms : undefined
}
