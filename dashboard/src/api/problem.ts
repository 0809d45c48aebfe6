import { cures } from '../generated/cures.ts'

type ErrorBody = { error_code: string; status_code: number; msg: string; details: Record<string, string> }

/** A refusal of the API, or the lack of any answer, with what the person in front of it can do next. */
export class Problem extends Error {
  readonly status: number
  readonly code: string
  readonly cure: string
  readonly operationId: string | undefined
  readonly details: Readonly<Record<string, string>>

  constructor({ status, code, message, cure, details }: Fields) {
    super(message)
    this.status = status
    this.code = code
    this.cure = cure
    this.details = details
    this.operationId = details.operation_id
  }
}
type Fields = { status: number; code: string; message: string; cure: string; details: Record<string, string> }

// What the catalogue says is written for whoever writes a client; on a screen some of it needs other words.
const cureOnScreen: Record<string, string> = {
  ERR_UNAUTHENTICATED: 'Sign in again with the token of a live API key.',
  ERR_IP_REFUSED:
    'Come from an address that is allowed, or let an admin allow this one. Whoever runs the server can always let the account in again: gatehouse ip-restrictions release.',
  ERR_TOKEN_REPLACED: 'Sign out, and sign in again with the new token of the key.',
  ERR_PRECONDITION_FAILED: 'Reload to see what it is now, and make your change again.',
}

const isErrorBody = (body: unknown): body is ErrorBody =>
  typeof body === 'object' && body !== null && 'error_code' in body && 'msg' in body

export function problemOf(status: number, body: unknown): Problem {
  if (!isErrorBody(body))
    return new Problem({
      status,
      code: `HTTP ${status}`,
      message: 'Something between this page and the service answered in its place.',
      cure: 'Try again in a moment. If it stays, look at the proxy in front of the service.',
      details: {},
    })
  return new Problem({
    status,
    code: body.error_code,
    message: body.msg,
    cure: cureOnScreen[body.error_code] ?? cures[body.error_code] ?? 'Look the code up in docs/errors.md.',
    details: body.details,
  })
}

export const unreachable = (): Problem =>
  new Problem({
    status: 0,
    code: 'No answer',
    message: 'The service can not be reached from here.',
    cure: 'Check your connection, then try again. Edge nodes decide on by themselves meanwhile.',
    details: {},
  })
