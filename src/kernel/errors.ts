import { type IdPrefix, idPrefixes } from './ids.ts'

/**
 * Every refusal that a client can meet: its status, why it happens and what to do about it. docs/errors.md is
 * made from this table, and a code, once released, keeps its meaning.
 */
export const errorCatalogue = {
  ERR_MALFORMED_REQUEST: {
    status: 400,
    cause: 'The request breaks HTTP itself: two Host headers, a body on a GET, an unreadable URL.',
    cure: 'Send one Host header, a plain path, and a body only with POST, PATCH and PUT.',
  },
  ERR_ROUTE_NOT_FOUND: {
    status: 404,
    cause: 'No operation has this path.',
    cure: 'Compare the path with openapi.json. Paths have no trailing slash and are case-sensitive.',
  },
  ERR_METHOD_NOT_ALLOWED: {
    status: 405,
    cause: 'The path exists, but not with this method.',
    cure: 'Use one of the methods in the Allow header.',
  },
  ERR_SERVICE_VERSION: {
    status: 400,
    cause: 'The version header is missing, repeated, or has another value than 2.',
    cure: 'Send exactly one header `Service-Version: 2`.',
  },
  ERR_UNAUTHENTICATED: {
    status: 401,
    cause:
      'There is no usable API key: none was sent, it was mistyped, it was deleted or rotated away, its time is over, or its owner is inactive. The answer does not say which.',
    cure: 'Send `Authorization: Bearer <token>` with the token of a live API key.',
  },
  ERR_TOKEN_REPLACED: {
    status: 403,
    cause:
      'The token was replaced by a rotation. Until its overlap ends it can call the API, but it cannot create, change, rotate or delete API keys, users and bots, and it cannot sign in. Neither can a session that it opened manage them.',
    cure: 'Use the token that the rotation returned. If it was lost, rotate the key with another key of its owner, or ask an admin.',
  },
  ERR_OTHER_SITE: {
    status: 403,
    cause:
      "A request with a dashboard session's cookie, or one that signs in, did not come from the dashboard's own pages, as far as the browser says.",
    cure: 'Open the dashboard under the public URL of the installation. If it is open there, the operator has set GATEHOUSE_PUBLIC_URL to another address. Programs send a bearer token and no cookie.',
  },
  ERR_TOO_MANY_ATTEMPTS: {
    status: 429,
    cause:
      'More than ten attempts to sign in from this address within a minute had a wrong token, and so had this one. A good token is never refused for that.',
    cure: 'Wait as many seconds as the Retry-After header says.',
  },
  ERR_CONTENT_TYPE: {
    status: 415,
    cause: 'The body is not declared as something that this operation reads.',
    cure: 'Send `Content-Type: application/json`.',
  },
  ERR_BODY_TOO_LARGE: {
    status: 413,
    cause: 'The body is larger than this operation reads.',
    cure: 'Send less. The limit is in the message.',
  },
  ERR_HEADERS_TOO_LARGE: {
    status: 431,
    cause: 'The request has more or longer headers than the service reads.',
    cure: 'Send fewer headers.',
  },
  ERR_REQUEST_TIMEOUT: {
    status: 408,
    cause: 'The request did not arrive in time.',
    cure: 'Send the whole request at once, and try again.',
  },
  ERR_INVALID_JSON: {
    status: 400,
    cause: 'The body is not one well-formed JSON value in UTF-8, or an object in it has the same key twice.',
    cure: 'Correct the body.',
  },
  ERR_INVALID_FIELD: {
    status: 400,
    cause: 'A field or query parameter is missing, unknown, of the wrong type or out of bounds.',
    cure: '`details.field` names it and the message says what it must be. Types are never converted: "true" is not true.',
  },
  ERR_FORBIDDEN: {
    status: 403,
    cause: 'The key is good, but its owner may not do this.',
    cure: 'Use the key of an admin, or ask one.',
  },
  ERR_NOT_FOUND: {
    status: 404,
    cause: 'The account has no such resource. Whether the id is malformed, deleted or of another account is not told.',
    cure: 'Check the id, and that the key belongs to the right account.',
  },
  ERR_PRECONDITION_FAILED: {
    status: 412,
    cause: 'The If-Match header names another state than the resource is in: somebody changed it meanwhile.',
    cure: 'Read it again, and decide anew with its new ETag.',
  },
  ERR_IDEMPOTENCY_KEY_USED: {
    status: 409,
    cause: 'The Idempotency-Key was used within 24 hours for another operation or another body.',
    cure: 'Use a new key for a new request, and the same key only for an exact repetition.',
  },
  ERR_API_KEY_EXPIRED: {
    status: 409,
    cause: 'The API key has an `expires_at` that has passed: a new token for it would not work either.',
    cure: 'Let an admin set another `expires_at` with PATCH, or remove it with null, and rotate then. Or create another key.',
  },
  ERR_HOSTPORT_TAKEN: {
    status: 409,
    cause:
      'A hostport belongs to one edge. A TCP port, and a host name with everything under its wildcard, belong to one account of the installation. This hostport belongs to another edge, or overlaps what another account has.',
    cure: 'Use another host name or port, or remove the hostport from the edge that the message names. `details.field` names the entry. If the domain is yours, ask the operator of the installation who has it.',
  },
  ERR_MATCH_TAKEN: {
    status: 409,
    cause: 'The HTTPS edge already has a route with this match.',
    cure: 'Change or delete the other route.',
  },
  ERR_TOO_MANY: {
    status: 409,
    cause: 'There is a limit to how many of these one thing can have, and it is reached.',
    cure: 'The message tells the limit. Delete what is no longer needed, or spread it.',
  },
  ERR_BACKEND_IN_USE: {
    status: 409,
    cause: 'The backend is still used by edges or routes, which `details.used_by` names.',
    cure: 'Give them another backend first.',
  },
  ERR_IP_REFUSED: {
    status: 403,
    cause: 'An enforced IP restriction of the account does not let this source address call the API.',
    cure: 'Call from an allowed address. An admin can look the operation id up under /ip_refusals to see which rule decided.',
  },
  ERR_SELF_LOCKOUT: {
    status: 409,
    cause:
      "After the change the caller's own address would be refused on this API, or on the dashboard that the caller uses. The change was not made.",
    cure: 'Allow your own address first (`GET /caller` tells it), or repeat the request with `allow_self_lockout=true`.',
  },
  ERR_IP_POLICY_IN_USE: {
    status: 409,
    cause: 'The IP policy is still attached to something, which `details.used_by` names.',
    cure: 'Detach it there first.',
  },
  ERR_CIDR_TAKEN: {
    status: 409,
    cause: 'The IP policy already has a rule for this range.',
    cure: 'Change or delete the other rule. A policy has at most one rule for a range.',
  },
  ERR_LAST_ADMIN: {
    status: 409,
    cause: 'The change would leave the account without an active admin.',
    cure: 'Make another user an admin first.',
  },
  ERR_EMAIL_TAKEN: {
    status: 409,
    cause: 'Another user of the account has this email address, in whatever case.',
    cure: 'Use another address, or change the other user.',
  },
  ERR_UNAVAILABLE: {
    status: 503,
    cause:
      'The service cannot answer now: its database is out of reach or too busy, or it is shutting down. Nothing was changed.',
    cure: 'Try again after a moment. `/readyz` says what is wrong.',
  },
  ERR_TOO_MANY_OPERATIONS: {
    status: 429,
    cause:
      'The account already has as many operations under way as it may: whole rule sets, reports, or changes at the same time. Nothing was changed.',
    cure: 'Wait as many seconds as the Retry-After header says, and send fewer at once.',
  },
  ERR_OUTCOME_UNKNOWN: {
    status: 503,
    cause: 'The database was lost while a change was being committed. It may or may not have been made.',
    cure: 'Read the resource before trying again.',
  },
  ERR_INTERNAL: {
    status: 500,
    cause: 'A defect in the service.',
    cure: 'Report the operation id. The log has the cause under it.',
  },
} as const satisfies Record<string, { status: number; cause: string; cure: string }>

export type ErrorCode = keyof typeof errorCatalogue

/** An answer of 'no' written for the client. Whatever else is thrown is a defect, and is told to nobody but the log. */
export class Refusal extends Error {
  override readonly name = 'Refusal'
  readonly code: ErrorCode
  readonly details: Record<string, string>

  constructor(code: ErrorCode, message: string, options: { details?: Record<string, string>; cause?: unknown } = {}) {
    super(message, { cause: options.cause })
    this.code = code
    this.details = options.details ?? {}
  }

  get status(): number {
    return errorCatalogue[this.code].status
  }
}

/** The same words for a malformed, an absent and a foreign id: the id is not echoed. */
export const notFound = (prefix: IdPrefix): Refusal =>
  new Refusal('ERR_NOT_FOUND', `This account has no such ${idPrefixes[prefix]}.`)

export const invalidField = (field: string, fault: string, cause?: unknown): Refusal =>
  new Refusal('ERR_INVALID_FIELD', `${field} ${fault}.`, { details: { field }, cause })

export const forbidden = (message: string): Refusal => new Refusal('ERR_FORBIDDEN', message)
