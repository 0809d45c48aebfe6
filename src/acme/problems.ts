type Facts = { status?: number; retryAfterMs?: number | undefined; cause?: unknown }

/** An error from the authority or from reaching it (RFC 8555, 6.7). Shown to the account. */
export class AcmeProblem extends Error {
  override readonly name = 'AcmeProblem'
  /** Last part of the problem's URN, such as `rateLimited`; `unreachable` if there was no response. */
  readonly type: string
  readonly status: number
  /** Retry-After of the authority. */
  readonly retryAfterMs: number | undefined

  constructor(type: string, message: string, { status = 0, retryAfterMs, cause }: Facts = {}) {
    super(message, { cause })
    this.type = type
    this.status = status
    this.retryAfterMs = retryAfterMs
  }
}

/** A precondition is missing, so the authority was not asked. Not a failure. */
export class Unmet extends Error {
  override readonly name = 'Unmet'
  readonly code: string
  /** When to check again; undefined if unknown. */
  readonly retryAt: number | undefined
  constructor(code: string, message: string, retryAt?: number) {
    super(message)
    this.code = code
    this.retryAt = retryAt
  }
}

type ProblemDocument = { type?: unknown; detail?: unknown; subproblems?: unknown }

/** Limited because the message is stored and shown. */
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
    // Text from another server must not break log lines.
    text.replaceAll(/[^\x20-\x7e]+/g, ' ').slice(0, maxMessageLength),
    { status, retryAfterMs },
  )
}

/** Accepts seconds or a date; undefined if the header is missing or invalid. */
export function retryAfterMs(header: string | undefined, now: number): number | undefined {
  if (header === undefined) return undefined
  const ms = /^\d{1,7}$/.test(header) ? Number(header) * 1_000 : Date.parse(header) - now
  return Number.isFinite(ms) && ms >= 0 ? ms : undefined
}
