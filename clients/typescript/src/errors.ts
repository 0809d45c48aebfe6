import type { components } from './generated/openapi.ts'

export type ErrorBody = components['schemas']['Error']
export type ErrorCode = ErrorBody['error_code']
export type FieldError = { readonly field: string; readonly msg: string }

/** The service refused a request, and said why. */
export class GatehouseError extends Error {
  override readonly name = 'GatehouseError'
  readonly status: number
  /** Stable, unlike the message. */
  readonly code: ErrorCode
  readonly details: Readonly<Record<string, string>>
  /** With ERR_INVALID_FIELD: every field at fault. */
  readonly errors: readonly FieldError[]
  /** Identifies the request in the service's log and audit. */
  readonly operationId: string
  readonly docUrl: string | undefined
  /** How long the service asked to wait, if it did. */
  readonly retryAfterMs: number | undefined

  constructor(body: ErrorBody, retryAfterMs?: number) {
    super(body.msg)
    this.status = body.status_code
    this.code = body.error_code
    this.details = body.details
    this.errors = body.errors ?? []
    this.operationId = body.details.operation_id
    this.docUrl = body.doc_url
    this.retryAfterMs = retryAfterMs
  }
}

/** The account wants such changes approved: nothing was changed, and the change waits as a change set. */
export class SentForApprovalError extends Error {
  override readonly name = 'SentForApprovalError'
  readonly changeSet: components['schemas']['ChangeSet']

  constructor(changeSet: components['schemas']['ChangeSet']) {
    super(
      `This change needs the approval of another admin, and waits for it as the change set ${changeSet.id}. Nothing was changed.`,
    )
    this.changeSet = changeSet
  }
}

/** No answer of the service came: nothing answered, the connection broke, or something else answered in its place. */
export class ConnectionError extends Error {
  override readonly name = 'ConnectionError'
  /** Whether the change may have been made all the same. Read before you repeat it. */
  readonly mayBeDone: boolean
  /** If something answered in its place. */
  readonly status: number | undefined

  constructor(message: string, { mayBeDone, status, cause }: { mayBeDone: boolean; status?: number; cause?: unknown }) {
    super(message, { cause })
    this.mayBeDone = mayBeDone
    this.status = status
  }
}

/** An error as the service writes it; undefined if something else wrote it. */
export function readError(text: string): ErrorBody | undefined {
  try {
    const body = JSON.parse(text)
    return typeof body?.error_code === 'string' && typeof body.msg === 'string' ? body : undefined
  } catch {
    return undefined
  }
}
