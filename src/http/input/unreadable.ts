import { STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyBaseLogger } from 'fastify'
import { Refusal } from '../../kernel/errors.ts'
import { newId } from '../../kernel/ids.ts'
import { type DocUrl, errorBody } from '../refusals.ts'
import { statuses } from '../statuses.ts'

const known: Record<string, () => Refusal> = {
  ERR_HTTP_REQUEST_TIMEOUT: () =>
    new Refusal('ERR_REQUEST_TIMEOUT', 'The request did not arrive in time. Send it without pauses.'),
  HPE_HEADER_OVERFLOW: () => new Refusal('ERR_HEADERS_TOO_LARGE', 'The headers are too large. Send at most 16 KiB.'),
}
const malformed = () => new Refusal('ERR_MALFORMED_REQUEST', 'The request is not well-formed HTTP.')

/**
 * Answers data that never became a request: invalid HTTP, or not received in time. Fastify has no reply object for it,
 * so this writes the usual refusal by hand.
 */
export const answerUnreadable =
  (log: FastifyBaseLogger, docUrl: DocUrl) =>
  (error: Error & { code?: string }, socket: Socket): void => {
    if (error.code === 'ECONNRESET' || !socket.writable) {
      socket.destroy()
      return
    }
    const refusal = (known[error.code ?? ''] ?? malformed)()
    const status = statuses[refusal.code]
    const operationId = newId('op')
    const body = JSON.stringify(errorBody(refusal, operationId, docUrl))
    const head = [
      `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
      `Operation-Id: ${operationId}`,
      'Content-Type: application/json; charset=utf-8',
      `Content-Length: ${Buffer.byteLength(body)}`,
      'Cache-Control: no-store',
      'Connection: close',
    ]
    // The error's text is not logged: it contains the received bytes, which may include a token.
    log.info({ operation_id: operationId, status, code: error.code }, 'unreadable request')
    socket.end(`${head.join('\r\n')}\r\n\r\n${body}`, () => socket.destroy())
  }
