import {
  ConnectionError,
  type FieldError,
  GatehouseError,
  SentForApprovalError,
} from '../../../clients/typescript/src/errors.ts'

/** An API error, or a missing response, with a hint on what to do next. */
export class Problem extends Error {
  readonly status: number
  readonly code: string
  readonly hint: string
  readonly operationId: string | undefined
  readonly details: Readonly<Record<string, string>>
  /** All invalid fields. */
  readonly errors: readonly FieldError[]

  constructor({ status, code, message, hint, details, errors }: Fields) {
    super(message)
    this.status = status
    this.code = code
    this.hint = hint
    this.details = details
    this.operationId = details.operation_id
    this.errors = errors ?? (details.field === undefined ? [] : [{ field: details.field, msg: message }])
  }
}
type Fields = {
  status: number
  code: string
  message: string
  hint: string
  details: Readonly<Record<string, string>>
  errors?: readonly FieldError[]
}

/** Neither a problem nor a success: nothing has changed yet. */
export class SentForApproval extends Problem {
  readonly changeSetId: string

  constructor(changeSetId: string) {
    super({
      status: 202,
      code: changeSetId,
      message: 'Sent for approval.',
      hint: 'Nothing was changed yet. Another admin has to approve this change, and then it can be applied.',
      details: {},
    })
    this.changeSetId = changeSetId
  }
}

// The catalog's hints address developers of clients; some need other words on screen.
const hintOnScreen: Record<string, string> = {
  ERR_UNAUTHENTICATED: 'Sign in again with the token of an active API key.',
  ERR_IP_REFUSED:
    'Connect from an allowed address, or ask an admin to allow this one. The operator of the server can always restore access with gatehouse ip-restrictions release.',
  ERR_TOKEN_REPLACED: "Sign out, then sign in again with the key's new token.",
  ERR_APPROVAL_REQUIRED: 'Ask another admin to approve it. It is under Change sets.',
  ERR_PRECONDITION_FAILED: 'Reload the page to see the current state, then make your change again.',
}

/** Loaded when an error occurs. If loading fails, for example offline, refers to the documentation. */
async function hintOf(code: string): Promise<string> {
  const { hints } = await import('../generated/hints.ts').catch(() => ({ hints: {} as Record<string, string> }))
  return hints[code] ?? 'See docs/reference/errors.md.'
}

export async function problemOf(error: unknown): Promise<Problem> {
  if (error instanceof SentForApprovalError) return new SentForApproval(error.changeSet.id)
  if (error instanceof GatehouseError) {
    const { status, code, message, details, errors } = error
    const hint = hintOnScreen[code] ?? (await hintOf(code))
    return new Problem({ status, code, message, hint, details, ...(errors.length && { errors }) })
  }
  if (!(error instanceof ConnectionError) || error.status === undefined) return unreachable()
  return new Problem({
    status: error.status,
    code: `HTTP ${error.status}`,
    message: 'The response did not come from Gatehouse.',
    hint: 'Try again in a moment. If this persists, check the proxy in front of the service.',
    details: {},
  })
}

/** A fault that the form detects itself, worded as the API would. */
export const invalidField = (field: string, fault: string): Problem =>
  new Problem({ status: 0, code: 'ERR_INVALID_FIELD', message: `${field} ${fault}.`, hint: '', details: { field } })

export const unreachable = (): Problem =>
  new Problem({
    status: 0,
    code: 'No response',
    message: 'The service cannot be reached.',
    hint: 'Check your connection, then try again. Edge nodes keep enforcing the last known state.',
    details: {},
  })
