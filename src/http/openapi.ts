import type { TObject, TSchema } from 'typebox'
import { type ErrorCode, errorCatalogue } from '../kernel/errors.ts'
import { exampleId, exampleOf } from './examples.ts'
import type { Route } from './route.ts'

type Json = Record<string, unknown>

/** What any operation can answer, then what those of a certain form can. A route adds its own with `errors`. */
function errorsOf(route: Route): ErrorCode[] {
  const codes: ErrorCode[] = [
    'ERR_MALFORMED_REQUEST',
    'ERR_SERVICE_VERSION',
    'ERR_UNAUTHENTICATED',
    'ERR_IP_REFUSED',
    'ERR_INVALID_FIELD',
    'ERR_UNAVAILABLE',
    'ERR_INTERNAL',
  ]
  if (route.body) codes.push('ERR_CONTENT_TYPE', 'ERR_BODY_TOO_LARGE', 'ERR_REQUEST_TIMEOUT', 'ERR_INVALID_JSON')
  if (route.params) codes.push('ERR_NOT_FOUND')
  if (route.access === 'admin') codes.push('ERR_FORBIDDEN')
  if (route.managesKeys || route.signsIn) codes.push('ERR_TOKEN_REPLACED')
  if (route.method !== 'GET') codes.push('ERR_OUTCOME_UNKNOWN', 'ERR_OTHER_SITE')
  return [...new Set([...codes, ...(route.errors ?? [])])]
}

/** The OpenAPI 3.1 document of the routes. Schemas with a title become components; the rest stays in place. */
export function openApiDocument(routes: readonly Route[], version: string): Json {
  const schemas: Json = {
    Error: {
      type: 'object',
      required: ['error_code', 'status_code', 'msg', 'details'],
      additionalProperties: false,
      properties: {
        error_code: { type: 'string', enum: Object.keys(errorCatalogue) },
        status_code: { type: 'integer' },
        msg: { type: 'string', description: 'A sentence that says what to do.' },
        details: { type: 'object', required: ['operation_id'], additionalProperties: { type: 'string' } },
      },
    },
  }
  const paths: Record<string, Json> = {}
  for (const route of routes) {
    const path = route.path.replaceAll(/:(\w+)/g, '{$1}')
    paths[path] ??= {}
    paths[path][route.method.toLowerCase()] = operation(route, schemas)
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Gatehouse',
      version,
      description:
        'API keys, IP policies and restrictions, TCP and HTTPS edges. Errors and what to do about them: docs/errors.md.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/' }],
    security: [{ apiKey: [] }, { dashboardSession: [] }],
    paths,
    components: {
      securitySchemes: {
        apiKey: { type: 'http', scheme: 'bearer', description: 'The token of an API key.' },
        dashboardSession: {
          type: 'apiKey',
          in: 'cookie',
          name: '__Host-gatehouse_session',
          description:
            'Set by `POST /dashboard_session`; without `__Host-` where the public URL is not https. A token that is sent with it wins.',
        },
      },
      parameters: {
        ServiceVersion: {
          name: 'Service-Version',
          in: 'header',
          required: true,
          schema: { type: 'string', enum: ['2'] },
          example: '2',
        },
        IfMatch: {
          name: 'If-Match',
          in: 'header',
          description: 'ETags of what you last read, or `*`. If it is in none of these states any more: 412.',
          schema: { type: 'string' },
        },
        IdempotencyKey: {
          name: 'Idempotency-Key',
          in: 'header',
          description:
            'Makes it happen once: the same request with the same key is answered with what was created then, for 24 hours.',
          schema: { type: 'string', pattern: '^[\\x21-\\x7e]{1,255}$' },
        },
      },
      headers: {
        OperationId: {
          description: 'Names this request in the log and the audit.',
          required: true,
          schema: { type: 'string' },
        },
        ServiceWarning: {
          description:
            'What would have been refused, or is not told again: `ip_restriction=ipx_…`, `token=told_once`. Comma-separated.',
          schema: { type: 'string' },
        },
        ETag: {
          description: 'A strong tag of what is shown, for If-Match.',
          required: true,
          schema: { type: 'string' },
        },
        ServiceGeneration: {
          description: 'The number under which edges are told of the change. Not there when they need not be.',
          schema: { type: 'string', pattern: '^[0-9]+$' },
        },
        ServiceApplied: {
          description: 'With `wait=applied`: on how many of the live edge nodes the change is in force, such as 3/3.',
          schema: { type: 'string', pattern: '^[0-9]+/[0-9]+$' },
        },
        ServiceBehind: {
          description: 'With `wait=applied`: the names of the live edge nodes on which it is not.',
          schema: { type: 'string' },
        },
        IdempotencyReplayed: {
          description: '`true` when this is a repetition, and nothing was created now.',
          schema: { type: 'string', enum: ['true'] },
        },
      },
      schemas,
    },
  }
}

const header = (name: string) => ({ [name]: { $ref: `#/components/headers/${name.replaceAll('-', '')}` } })
const commonHeaders = { ...header('Operation-Id'), ...header('Service-Warning') }

const successHeaders = (route: Route): Json => ({
  ...commonHeaders,
  ...(route.tagged && header('ETag')),
  ...(route.method !== 'GET' && header('Service-Generation')),
  ...(route.query?.properties.wait && { ...header('Service-Applied'), ...header('Service-Behind') }),
  ...(route.errors?.includes('ERR_IDEMPOTENCY_KEY_USED') && header('Idempotency-Replayed')),
})

function operation(route: Route, schemas: Json): Json {
  const responses: Json = {
    [route.success]: {
      description: route.success === 204 ? 'Done. There is no body.' : route.success === 201 ? 'Created.' : 'OK.',
      headers: successHeaders(route),
      ...(route.response && {
        content: {
          'application/json': { schema: hoist(route.response, schemas) },
          ...plainText(route.otherResponses),
        },
      }),
    },
  }
  for (const [status, codes] of Object.entries(
    Object.groupBy(errorsOf(route), (code) => String(errorCatalogue[code].status)),
  )) {
    responses[status] = {
      description: codes?.map((code) => `\`${code}\`: ${errorCatalogue[code].cause}`).join('\n\n'),
      headers: commonHeaders,
      content: {
        'application/json': {
          schema: { allOf: [{ $ref: '#/components/schemas/Error' }, { properties: { error_code: { enum: codes } } }] },
        },
      },
    }
  }
  return {
    operationId: route.operation,
    summary: route.summary,
    tags: [route.operation.split('.')[0]],
    ...(route.signsIn && { security: [] }),
    parameters: [
      { $ref: '#/components/parameters/ServiceVersion' },
      ...(route.errors?.includes('ERR_PRECONDITION_FAILED') ? [{ $ref: '#/components/parameters/IfMatch' }] : []),
      ...(route.errors?.includes('ERR_IDEMPOTENCY_KEY_USED')
        ? [{ $ref: '#/components/parameters/IdempotencyKey' }]
        : []),
      ...Object.keys(route.params ?? {}).map((name) => ({
        name,
        in: 'path',
        required: true,
        schema: { type: 'string' },
        example: route.params[name] === 'number' ? '1' : exampleId(route.params[name]),
      })),
      ...queryParameters(route.query),
    ],
    ...(route.body && {
      requestBody: {
        required: true,
        content: {
          'application/json': { schema: hoist(route.body, schemas), example: exampleOf(route.body) },
          ...plainText(route.otherBodies),
        },
      },
    }),
    responses,
  }
}

const plainText = (others: object = {}): Json =>
  Object.fromEntries(Object.keys(others).map((type) => [type, { schema: { type: 'string' } }]))

function queryParameters(query: TObject | undefined): Json[] {
  return Object.entries(query?.properties ?? {}).map(([name, schema]) => {
    const { description, ...rest } = schema as Json
    return {
      name,
      in: 'query',
      required: query?.required?.includes(name) ?? false,
      ...(description ? { description } : {}),
      schema: rest,
    }
  })
}

function hoist(schema: TSchema, schemas: Json): unknown {
  const inner = mapValues(schema as Json, (value) => hoistWithin(value, schemas))
  const { title, ...shape } = inner
  if (typeof title !== 'string') return inner
  schemas[title] = shape
  return { $ref: `#/components/schemas/${title}` }
}

function hoistWithin(value: unknown, schemas: Json): unknown {
  if (Array.isArray(value)) return value.map((item) => hoistWithin(item, schemas))
  if (value === null || typeof value !== 'object') return value
  return hoist(value as TSchema, schemas)
}

const mapValues = (object: Json, change: (value: unknown) => unknown): Json =>
  Object.fromEntries(Object.entries(object).map(([key, value]) => [key, change(value)]))
