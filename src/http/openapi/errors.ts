import { STATUS_CODES } from 'node:http'
import { type ErrorCode, errorCatalog } from '../../kernel/errors.ts'
import { leastRole, type Route } from '../route.ts'
import { statuses } from '../statuses.ts'
import { commonHeaders, header } from './components.ts'
import type { Json } from './json.ts'

/** Errors that every operation can return. */
const always: readonly ErrorCode[] = [
  'ERR_MALFORMED_REQUEST',
  'ERR_SERVICE_VERSION',
  'ERR_UNAUTHENTICATED',
  'ERR_IP_REFUSED',
  'ERR_SCOPE',
  'ERR_INVALID_FIELD',
  'ERR_TOO_MANY_ATTEMPTS',
  'ERR_RATE_LIMITED',
  'ERR_UNAVAILABLE',
  'ERR_INTERNAL',
]

/** Errors that follow from the form of an operation. A route adds its own with `errors`. */
function errorsOf(route: Route): ErrorCode[] {
  const codes = [...always]
  if (route.body) codes.push('ERR_CONTENT_TYPE', 'ERR_BODY_TOO_LARGE', 'ERR_REQUEST_TIMEOUT', 'ERR_INVALID_JSON')
  if (route.params) codes.push('ERR_NOT_FOUND')
  if (leastRole(route) !== 'viewer' || route.adminsOnly) codes.push('ERR_FORBIDDEN')
  if (route.managesKeys || route.signsIn) codes.push('ERR_TOKEN_REPLACED')
  if (route.method !== 'GET') codes.push('ERR_OUTCOME_UNKNOWN', 'ERR_OTHER_SITE')
  if (route.method !== 'GET' || route.heavy) codes.push('ERR_TOO_MANY_OPERATIONS')
  if (route.query?.properties.rollout) codes.push('ERR_ROLLOUT_STATE')
  const all = new Set([...codes, ...(route.errors ?? [])])
  // Sorted, so that the same codes always share one response.
  return (Object.keys(errorCatalog) as ErrorCode[]).filter((code) => all.has(code))
}

/**
 * References to the error responses of an operation. Operations with the same codes for a status share a component;
 * inlined, errors took more than half of the document.
 */
export function errorResponses(route: Route, responses: Json): Json {
  const byStatus = Object.groupBy(errorsOf(route), (code) => String(statuses[code]))
  return Object.fromEntries(
    Object.entries(byStatus).map(([status, codes = []]) => {
      const name = nameOf(status, codes)
      responses[name] ??= response(codes, status === '429' ? header('Retry-After') : {})
      return [status, { $ref: `#/components/responses/${name}` }]
    }),
  )
}

/** Named after its codes, shared ones first: Unavailable, BadRequestOrInvalidJson. */
function nameOf(status: string, codes: readonly ErrorCode[]): string {
  const { true: shared = [], false: special = [] } = Object.groupBy(
    codes,
    (code) => `${always.includes(code)}` as const,
  )
  const common = shared.length > 1 ? [STATUS_CODES[status]?.replaceAll(/\W/g, '') ?? status] : shared.map(inWords)
  return [...common, ...special.map(inWords)].join('Or')
}

/** Plain `Forbidden` names the 403 that every operation can return; this one concerns the role. */
const inWords = (code: ErrorCode): string =>
  (code === 'ERR_FORBIDDEN' ? 'ERR_MISSING_ROLE' : code)
    .slice('ERR_'.length)
    .split('_')
    .map((word) => word[0] + word.slice(1).toLowerCase())
    .join('')

const response = (codes: readonly ErrorCode[], headers: Json): Json => ({
  description: codes.map((code) => `\`${code}\`: ${errorCatalog[code].cause}`).join('\n\n'),
  headers: { ...commonHeaders, ...headers },
  content: {
    'application/json': {
      schema: { allOf: [{ $ref: '#/components/schemas/Error' }, { properties: { error_code: { enum: codes } } }] },
    },
  },
})
