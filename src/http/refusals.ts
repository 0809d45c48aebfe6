import type { Socket } from 'node:net'
import { isUnavailable, OutcomeUnknown } from '../db/failures.ts'
import { Refusal } from '../kernel/errors.ts'
import { type Id, newId } from '../kernel/ids.ts'

export type ErrorBody = { error_code: string; status_code: number; msg: string; details: Record<string, string> }

/** Whatever was thrown, as the answer to the client. Only a Refusal's own words reach it. */
export function toRefusal(error: unknown): Refusal {
  if (error instanceof Refusal) return error
  if (error instanceof OutcomeUnknown) {
    return new Refusal(
      'ERR_OUTCOME_UNKNOWN',
      'The change may or may not have been made. Read the resource before trying again.',
      { cause: error },
    )
  }
  if (isUnavailable(error)) {
    return new Refusal(
      'ERR_UNAVAILABLE',
      'The service cannot reach its database. Nothing was changed; try again in a moment.',
      { cause: error },
    )
  }
  const fromFastify = frameworkRefusals[(error as { code?: string })?.code ?? '']
  if (fromFastify) return fromFastify(error)
  return new Refusal('ERR_INTERNAL', 'This is a defect in the service. Report it with the operation id.', {
    cause: error,
  })
}

const frameworkRefusals: Record<string, (cause: unknown) => Refusal> = {
  FST_ERR_BAD_URL: (cause) =>
    new Refusal('ERR_MALFORMED_REQUEST', 'The path is not a valid URL. Percent-encode it correctly.', { cause }),
  ECONNRESET: (cause) =>
    new Refusal('ERR_MALFORMED_REQUEST', 'The request ended before its body was complete.', { cause }),
}

export const errorBody = (refusal: Refusal, operationId: Id<'op'>): ErrorBody => ({
  error_code: refusal.code,
  status_code: refusal.status,
  msg: refusal.message,
  details: { operation_id: operationId, ...refusal.details },
})

/** What Node's parser refuses never becomes a request. Its sender still gets an answer of the usual form. */
export function answerBrokenRequest(error: { code?: string }, socket: Socket): void {
  if (socket.writable && error.code !== 'ECONNRESET') {
    const refusal =
      brokenRequests[error.code ?? ''] ?? new Refusal('ERR_MALFORMED_REQUEST', 'This is not a valid HTTP/1.1 request.')
    const operationId = newId('op')
    const body = JSON.stringify(errorBody(refusal, operationId))
    socket.write(
      `HTTP/1.1 ${refusal.status} Refused\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n` +
        `Operation-Id: ${operationId}\r\nConnection: close\r\n\r\n${body}`,
    )
  }
  socket.destroy()
}

const brokenRequests: Record<string, Refusal> = {
  ERR_HTTP_REQUEST_TIMEOUT: new Refusal(
    'ERR_REQUEST_TIMEOUT',
    'The request did not arrive in time. Send it whole, and try again.',
  ),
  HPE_HEADER_OVERFLOW: new Refusal(
    'ERR_HEADERS_TOO_LARGE',
    'The headers are larger than the service reads. Send less.',
  ),
}
