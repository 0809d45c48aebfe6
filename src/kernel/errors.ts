import { type IdPrefix, idPrefixes } from './ids.ts'

/**
 * Every refusal that a client can receive, with cause and remedy. `src/http/statuses.ts` adds the HTTP status, and
 * docs/reference/errors.md is generated from both. A released code never changes its meaning.
 */
export const errorCatalog = {
  ERR_MALFORMED_REQUEST: {
    cause:
      'The request is not valid HTTP, for example two Host headers, a body on a GET, or a URL that cannot be decoded.',
    hint: 'Send one Host header and a correctly encoded path, and send a body only with POST, PATCH and PUT.',
  },
  ERR_ROUTE_NOT_FOUND: {
    cause: 'No operation has this path.',
    hint: 'Compare the path with openapi.json. Paths are case-sensitive and have no trailing slash.',
  },
  ERR_METHOD_NOT_ALLOWED: {
    cause: 'The path exists but does not support this method.',
    hint: 'Use one of the methods in the Allow header.',
  },
  ERR_SERVICE_VERSION: {
    cause: 'The Service-Version header is missing, is sent more than once, or is not 2.',
    hint: 'Send the header `Service-Version: 2` exactly once.',
  },
  ERR_UNAUTHENTICATED: {
    cause:
      'The request has no valid API key: no token was sent, or the token is mistyped, deleted, replaced by a rotation or expired, its owner is inactive, or the request comes from outside its `allowed_cidrs`. The response deliberately does not say which.',
    hint: 'Send `Authorization: Bearer <token>` with the token of an active API key.',
  },
  ERR_TOKEN_REPLACED: {
    cause:
      'A rotation replaced this token. Until the overlap ends, the token can still call the API, but it cannot sign in, and it cannot create, change, rotate or delete API keys, users and bots. The same applies to sessions opened with it.',
    hint: 'Use the token that the rotation returned. If it is lost, rotate the key with another key of the same owner, or ask an admin.',
  },
  ERR_OTHER_SITE: {
    cause:
      "According to the browser, a sign-in or a request with the dashboard's session cookie came from a page of another site.",
    hint: 'Open the dashboard at the public URL of the installation. If you already have, GATEHOUSE_PUBLIC_URL is set to a different address; ask the operator to correct it. Programs should send a bearer token instead of a cookie.',
  },
  ERR_TOO_MANY_ATTEMPTS: {
    cause:
      'The token is not valid, and too many requests or sign-ins from this address had wrong tokens within a minute; or too many sign-ins with a provider or `gatehouse login` were started from it. A valid token is never refused for this reason.',
    hint: 'Correct the token. Another wrong token gets 401 again only after the number of seconds in the Retry-After header. Wait as long before you start another sign-in.',
  },
  ERR_RATE_LIMITED: {
    cause:
      'The API key, or all keys of its account together, have made more requests than their limit allows, or the account has verified too many domains. Nothing was changed.',
    hint: 'Wait for the number of seconds in the Retry-After header. The RateLimit header of every response says how many requests are left. If the limit is too low, ask the operator to raise it for your account.',
  },
  ERR_EXPECTATION: {
    cause: 'The request has an Expect header with something other than 100-continue.',
    hint: 'Leave the Expect header out.',
  },
  ERR_CONTENT_TYPE: {
    cause: 'The Content-Type of the body is missing, or this operation does not accept it, or the body is compressed.',
    hint: 'Send `Content-Type: application/json`, and no Content-Encoding.',
  },
  ERR_BODY_TOO_LARGE: {
    cause: 'The body exceeds the size limit of this operation.',
    hint: 'Send a smaller body. The message gives the limit.',
  },
  ERR_HEADERS_TOO_LARGE: {
    cause: 'The request headers exceed the size limit.',
    hint: 'Send fewer or shorter headers.',
  },
  ERR_REQUEST_TIMEOUT: {
    cause: 'The request did not arrive in full within the time limit.',
    hint: 'Try again, and send the whole request without pauses.',
  },
  ERR_INVALID_JSON: {
    cause: 'The body is not a single well-formed JSON value in UTF-8, or an object in it repeats a key.',
    hint: 'Check quotes, commas and brackets, and remove repeated keys.',
  },
  ERR_INVALID_FIELD: {
    cause: 'A field or query parameter is missing, unknown, of the wrong type or out of range.',
    hint: '`details.field` names the field, and the message says what it must be. Types are never converted: `"true"` is not `true`.',
  },
  ERR_FORBIDDEN: {
    cause: 'The API key is valid, but its owner is not allowed to do this.',
    hint: "Use an admin's key, or ask an admin.",
  },
  ERR_SCOPE: {
    cause:
      'The API key is valid, but its scopes do not include this operation (`details.operation`), or the change would give a key more than the key in use has. `details.missing` names the scope or range that is missing, and `details.field` the field of the body that asks for it.',
    hint: 'Use a key with a wider scope, or have such a key change the `scopes` or `allowed_cidrs` of this one. `GET /api_keys/{id}` shows what a key has.',
  },
  ERR_NOT_FOUND: {
    cause:
      'The account has no such resource. The response deliberately does not say whether the id is malformed, was deleted or belongs to another account.',
    hint: 'Check the id, and check that the API key belongs to the right account.',
  },
  ERR_PRECONDITION_FAILED: {
    cause: 'The resource no longer matches the If-Match header: it has changed since you read it.',
    hint: 'Fetch it again and retry with the current ETag.',
  },
  ERR_IDEMPOTENCY_KEY_USED: {
    cause: 'This Idempotency-Key was used within the last 24 hours for a different operation or body.',
    hint: 'Use a new Idempotency-Key for each new request, and reuse a key only to repeat exactly the same request.',
  },
  ERR_API_KEY_EXPIRED: {
    cause: 'The `expires_at` of the API key has passed, so a new token would not work either.',
    hint: 'Ask an admin to change `expires_at` with PATCH, or to clear it with null, then rotate the key. Or create another key.',
  },
  ERR_HOSTPORT_TAKEN: {
    cause:
      'Another edge has this hostport, or it overlaps one of another account. A hostport belongs to one edge. A TCP port, or a host name with everything under its wildcard, belongs to one account of the installation.',
    hint: 'Use another host name or port, or remove the hostport from the edge that the message names. `details.field` names the entry. If the domain is yours, ask the operator of the installation which account has it.',
  },
  ERR_DOMAIN_UNVERIFIED: {
    cause:
      'The installation accepts HTTPS hostports only under domains that the account has verified, and the account has not verified one for this name.',
    hint: 'Reserve the domain with `POST /reserved_domains`, publish the TXT record in `verification`, and verify it with `POST /reserved_domains/{id}/verify`. `details.field` names the hostport. The operator of the installation can also assign the domain to your account.',
  },
  ERR_DOMAIN_TAKEN: {
    cause: 'Another account of the installation holds the domain.',
    hint: "Remove the other account's TXT record and leave only your own, then verify again. If the operator of the installation assigned the domain, ask them to unassign it.",
  },
  ERR_DOMAIN_RESERVED: {
    cause: 'The account has already reserved this domain.',
    hint: 'Use the existing reservation: `GET /reserved_domains` lists them.',
  },
  ERR_DOMAIN_IN_USE: {
    cause: 'HTTPS hostports are still under this domain. `details.used_by` lists up to ten of them.',
    hint: 'Remove the hostports from their edges first.',
  },
  ERR_MATCH_TAKEN: {
    cause: 'The HTTPS edge already has a route with this match.',
    hint: 'Change or delete the existing route.',
  },
  ERR_TOO_MANY: {
    cause: 'The change would exceed a limit on the number of these resources.',
    hint: 'The message gives the limit. Delete what you no longer need, or split it across several edges, policies or accounts.',
  },
  ERR_QUOTA: {
    cause:
      'The account has as many of these resources as its quota allows, or the change would add more than are left. `details.kind` names the quota, `details.limit` is the number it allows, `details.used` how many there are, and `details.added` how many the change would add. Nothing was changed.',
    hint: 'Delete what you no longer need, or ask the operator to raise the quota of your account. `GET /caller` lists all quotas and their use.',
  },
  ERR_BACKEND_IN_USE: {
    cause: 'Edges, routes or other backends still use this backend. `details.used_by` lists them.',
    hint: 'Give those edges, routes and backends another backend, then delete this one.',
  },
  ERR_IP_REFUSED: {
    cause:
      'IP policies do not allow your source address: an enforced restriction of the account or, at an edge, also the policies of the route or TCP edge.',
    hint: 'Come from an allowed address. To see which rule decided, run `gatehouse requests get` with the operation id of the API call, as an admin, or with the X-Request-Id of an edge.',
  },
  ERR_SELF_LOCKOUT: {
    cause:
      'The change would block your own address from this API, or from the dashboard you are using. Nothing was changed.',
    hint: 'Allow your own address first (`GET /caller` shows it), or repeat the request with `allow_self_lockout=true`.',
  },
  ERR_UNUSUAL_CHANGE: {
    cause:
      'The change removes or adds unusually many rules of an IP policy, or edges, routes and backends of the account. `details.of` says which (`ip_policy_rules` or `edge_entries`), and `details.resource` of which policy or account; `details.before`, `details.after`, `details.removed` and `details.added` are the numbers. Nothing was changed.',
    hint: 'Compare the numbers with what you meant to change. `dry_run=true` shows the whole change. If it is right, repeat the request with `confirm=true`.',
  },
  ERR_ACCESS_TEST_FAILED: {
    cause:
      'The change would break an access test, or a new test fails. `details.failures` says for each which address, where, what is expected, what would happen, and which rule decides; `details.access_tests` lists their ids. Nothing was changed.',
    hint: 'Correct the change. If the test is out of date, change or delete it first. An admin can make the change anyway with `ignore_access_tests=true`, which the audit shows.',
  },
  ERR_IP_POLICY_IN_USE: {
    cause: 'The IP policy is still attached. `details.used_by` lists where.',
    hint: 'Remove it from those restrictions, edges and routes first.',
  },
  ERR_TLS_CERTIFICATE_IN_USE: {
    cause: 'A domain still uses this TLS certificate. `details.used_by` lists the domains.',
    hint: 'Give the domains another certificate first. To renew a certificate, replace its chain and key with PATCH instead.',
  },
  ERR_NO_SECRETS_KEY: {
    cause:
      'The installation has no key to encrypt secrets with, so certificates and webhooks are unavailable. Nothing was changed.',
    hint: 'Ask the operator to set GATEHOUSE_SECRETS_KEY_FILE.',
  },
  ERR_CIDR_TAKEN: {
    cause: 'The IP policy already has a rule for this range.',
    hint: 'Change or delete the existing rule. A policy has at most one rule per range.',
  },
  ERR_LAST_ADMIN: {
    cause: 'The change would leave the account without an active admin.',
    hint: 'Make another user an admin first.',
  },
  ERR_CHANGE_REFUSED: {
    cause:
      'A change of the change set is refused, so none of them is made. `details.change` is its position, from 0, `details.operation` its operation, and `details.code` and `details.reason` the error code and message that it would get by itself.',
    hint: 'Correct this change with `PATCH /change_sets/{id}`. The message says what is wrong with it.',
  },
  ERR_CHANGE_SET_CONFLICT: {
    cause:
      'What the change set would change has been changed since the draft was made. `details.resources` has the ids. Nothing was changed.',
    hint: 'Look at `POST /change_sets/{id}/preview`. If the changes are still right, send them again with `PATCH /change_sets/{id}`, and apply it.',
  },
  ERR_CHANGE_SET_APPLIED: {
    cause: 'The change set has been applied or withdrawn, so it can neither be changed nor applied.',
    hint: 'Create another change set.',
  },
  ERR_APPROVAL_REQUIRED: {
    cause:
      'The account wants such changes approved by another admin, and the change set has no approval that counts: it has none, it was changed afterwards, or who approved it is not an active admin any more.',
    hint: 'Ask another admin to approve it with `POST /change_sets/{id}/approve`. In an emergency an admin can apply it with `break_glass=true` and a reason in `Service-Reason`.',
  },
  ERR_NOT_INDEPENDENT: {
    cause:
      'The change set was made by the same person, or a person has had both tokens: the one that it was made with, and the one that would approve it.',
    hint: 'Let another admin approve it, who signs in with an identity provider or uses a key that the author did not create or rotate.',
  },
  ERR_NO_APPROVER: {
    cause: 'If changes needed approval, no one could approve those of the caller.',
    hint: 'Make another user an admin, and let this user sign in with an identity provider.',
  },
  ERR_NOT_CONFIRMABLE: {
    cause:
      'The change set does not wait to be confirmed: it was not applied with `confirm_within_seconds`, or its time is over, or it has been undone.',
    hint: 'Read the change set: `state` and `confirm_by` say which. If it was undone, revert the change set that did, or create its changes again.',
  },
  ERR_ROLLOUT_STATE: {
    cause:
      'The rollout is not in a state in which this can be done: it is halted already, it is not halted, it has reached all waves, or it waits for an earlier one of the account. Or an urgent change was asked for while a rollout of the account is halted. The message says which.',
    hint: 'Read the rollout: `state` says how far it is. What has reached all waves is undone with a change or a revert.',
  },
  ERR_NOT_REVERSIBLE: {
    cause:
      'This change cannot be undone: something of it is kept nowhere, such as a token, or it has been undone already. The message says which.',
    hint: 'The message says what to do in its place.',
  },
  ERR_NOT_RECORDED: {
    cause:
      'What was in force at that time cannot be worked out from the audit log: it is past its retention, or the rules of a policy were replaced together and are not kept any more. `details.earliest` is the earliest time that can be asked about.',
    hint: 'Ask about `details.earliest` or a later time.',
  },
  ERR_REVERT_CONFLICT: {
    cause:
      'What the change did has been changed since, so undoing it would undo later changes as well. `details.resources` has the ids of what is in the way, `details.fields` the fields, and `details.events` the later audit events, as far as they are known. Nothing was changed.',
    hint: 'Undo the later changes first, if they are wrong too. Otherwise make the change that you want.',
  },
  ERR_EMAIL_TAKEN: {
    cause: 'Another user of the account has this email address, in upper or lower case.',
    hint: 'Use another address, or change the other user.',
  },
  ERR_IDENTITY_TAKEN: {
    cause: 'A user of the account already has this identity: the same issuer and subject.',
    hint: 'Delete the other identity first. `GET /identities` lists them.',
  },
  ERR_UNAVAILABLE: {
    cause:
      'The service cannot respond now: its database is unreachable or overloaded, or it is shutting down. Nothing was changed.',
    hint: 'Try again in a moment. `/readyz` says what is wrong.',
  },
  ERR_TOO_MANY_OPERATIONS: {
    cause:
      'The account has reached its limit of concurrent rule set uploads, reports, streams or changes. Nothing was changed.',
    hint: 'Wait for the number of seconds in the Retry-After header, and send fewer requests at once.',
  },
  ERR_OUTCOME_UNKNOWN: {
    cause:
      'The connection to the database was lost while a change was being committed. The change may or may not have been made.',
    hint: 'Read the resource before trying again.',
  },
  ERR_INTERNAL: {
    cause: 'A bug in the service.',
    hint: 'Report the operation id. The log of the service has the cause under that id.',
  },
} as const satisfies Record<string, { cause: string; hint: string }>

export type ErrorCode = keyof typeof errorCatalog

/** A refusal written for the client. Any other thrown error is a bug: it is logged, and the client gets a bare 500. */
export class Refusal extends Error {
  override readonly name = 'Refusal'
  readonly code: ErrorCode
  readonly details: Record<string, string>
  /** All invalid fields, if the refusal is about fields. */
  readonly errors: readonly FieldError[]

  constructor(
    code: ErrorCode,
    message: string,
    options: { details?: Record<string, string>; errors?: readonly FieldError[]; cause?: unknown } = {},
  ) {
    super(message, { cause: options.cause })
    this.code = code
    this.details = options.details ?? {}
    this.errors = options.errors ?? []
  }
}

export type FieldError = { readonly field: string; readonly msg: string }
/** `fault` completes the sentence '<field> …'. */
export type FieldFault = { readonly field: string; readonly fault: string }

/** Malformed ids, missing ids and ids of other accounts get the same message, so it does not repeat the id. */
export const notFound = (kind: IdPrefix | 'request'): Refusal =>
  new Refusal('ERR_NOT_FOUND', `This account has no such ${kind === 'request' ? kind : idPrefixes[kind]}.`)

/** Limits the response: more faults than this usually repeat one mistake. */
const maxFieldErrors = 20
const maxFieldErrorsLength = 4_000

const maxNameLength = 300

/**
 * Names come from the request and occur several times in the response. Our longest, with a header name, has 280
 * characters.
 */
export const shortened = (name: string): string =>
  name.length > maxNameLength ? `${name.slice(0, maxNameLength).toWellFormed()}…` : name

/** The first fault is also the message and `details.field`. */
export function invalidFields([first, ...others]: readonly [FieldFault, ...FieldFault[]], cause?: unknown): Refusal {
  const { field, msg } = toError(first)
  const errors = [{ field, msg }]
  let length = 0
  for (const error of others.map(toError)) {
    length += error.field.length + error.msg.length
    if (errors.length === maxFieldErrors || length > maxFieldErrorsLength) break
    errors.push(error)
  }
  // All values in `details` are strings: typed clients declare it as a map of strings.
  const details = { field, errors: errors.map((error) => error.field).join(', ') }
  return new Refusal('ERR_INVALID_FIELD', msg, { details, errors, cause })
}

function toError({ field: name, fault }: FieldFault): FieldError {
  const field = shortened(name)
  return { field, msg: `${field} ${fault}.` }
}

export const invalidField = (field: string, fault: string, cause?: unknown): Refusal =>
  invalidFields([{ field, fault }], cause)

export const forbidden = (message: string): Refusal => new Refusal('ERR_FORBIDDEN', message)
