import { cannotWrite, isUnavailable, OutcomeUnknown, violates } from '../db/failures.ts'
import { type ErrorCode, type FieldError, Refusal } from '../kernel/errors.ts'
import { Crowded } from '../kernel/flow/gate.ts'
import type { Id } from '../kernel/ids.ts'
import { beyondQuota, excessIn, quotaConstraint } from '../kernel/quota_refusal.ts'
import { retryAfterSeconds } from './limits/heavy.ts'
import type { RequestFacts } from './request_facts.ts'
import { statuses } from './statuses.ts'

export type ErrorBody = {
  error_code: string
  status_code: number
  msg: string
  details: Record<string, string>
  errors?: readonly FieldError[]
  doc_url?: string
}

/** Documentation URL of an error; undefined if the installation serves no documentation. */
export type DocUrl = (code: ErrorCode) => string | undefined
export const docUrlUnder =
  (publicUrl: string): DocUrl =>
  (code) =>
    `${publicUrl}/docs/reference/errors.html#${code.toLowerCase()}`

/** Maps any error to a refusal. The client sees only the text of a Refusal. */
export function toRefusal(error: unknown): Refusal {
  if (error instanceof Refusal) return error
  if (error instanceof OutcomeUnknown) {
    return new Refusal(
      'ERR_OUTCOME_UNKNOWN',
      'The change may or may not have been made. Read the resource before trying again.',
      { cause: error },
    )
  }
  if (error instanceof Crowded) return crowded(error)
  if (violates(error, quotaConstraint)) return beyondQuota(excessIn(error), error)
  if (isUnavailable(error)) {
    const fault = cannotWrite(error)
      ? 'The database of the service accepts no changes'
      : 'The service cannot reach its database'
    return new Refusal('ERR_UNAVAILABLE', `${fault}. Nothing was changed; try again in a moment.`, { cause: error })
  }
  const fromFastify = frameworkRefusals[(error as { code?: string })?.code ?? '']
  if (fromFastify) return fromFastify(error)
  return new Refusal(
    'ERR_INTERNAL',
    'The request failed because of a bug in the service. Report it with the operation id.',
    {
      cause: error,
    },
  )
}

const frameworkRefusals: Record<string, (cause: unknown) => Refusal> = {
  FST_ERR_BAD_URL: (cause) =>
    new Refusal('ERR_MALFORMED_REQUEST', 'The path is not correctly percent-encoded. Encode it again.', { cause }),
}

/** 429 only if the account has used up its own share. If others have, the client is not at fault. */
function crowded(cause: Crowded): Refusal {
  const seconds = String(retryAfterSeconds)
  if (cause.limit === 'owner')
    return new Refusal(
      'ERR_TOO_MANY_OPERATIONS',
      `This account has reached its limit of concurrent operations. Nothing was changed; try again in ${seconds} s.`,
      { cause, details: { retry_after_seconds: seconds } },
    )
  return new Refusal('ERR_UNAVAILABLE', 'The service is busy. Nothing was changed; try again in a moment.', { cause })
}

export function errorBody(
  { code, message, details, errors }: Refusal,
  operationId: Id<'op'>,
  docUrl: DocUrl,
): ErrorBody {
  const doc_url = docUrl(code)
  return {
    error_code: code,
    status_code: statuses[code],
    msg: message,
    details: { operation_id: operationId, ...details },
    ...(errors.length > 0 && { errors }),
    ...(doc_url && { doc_url }),
  }
}

/** Builds the error response. `facts` keeps the cause for the log unless the client is at fault. */
export function failureOf(error: unknown, facts: RequestFacts, operationId: Id<'op'>, docUrl: DocUrl) {
  const refusal = toRefusal(error)
  const status = statuses[refusal.code]
  facts.error = status >= 500 ? (refusal.cause ?? refusal) : undefined
  const headers: Record<string, string> = {
    ...(status === 401 && { 'WWW-Authenticate': 'Bearer' }),
    ...(refusal.code === 'ERR_UNAVAILABLE' && { 'Retry-After': '1' }),
    ...(status === 429 && { 'Retry-After': refusal.details.retry_after_seconds ?? '1' }),
  }
  return { status, headers, body: errorBody(refusal, operationId, docUrl) }
}

export const noSuchPath = (suggestion?: string): Refusal =>
  new Refusal(
    'ERR_ROUTE_NOT_FOUND',
    suggestion ? `No operation has this path. Use ${suggestion}.` : 'No operation has this path.',
    suggestion ? { details: { suggestion } } : {},
  )
