import type { TSchema } from 'typebox'
import { DryRunResult } from '../dry_run.ts'
import { mayNeedApproval, type Route } from '../route.ts'
import { commonHeaders, header, security, securityOfSignIn, sharedComponents } from './components.ts'
import { describe, tagOf, tags } from './descriptions.ts'
import { errorResponses } from './errors.ts'
import { exampleOf, exampleOfParam } from './examples.ts'
import type { Json } from './json.ts'
import { queryParameters, shareQueryParameters } from './parameters.ts'
import { bodySchema, errorSchema, hoist, nameOfBody } from './schemas.ts'

type Operation = Json & { parameters: Json[] }

/** Builds the OpenAPI 3.1 document of the routes. Schemas with a title become components; others stay inline. */
export function openApiDocument(routes: readonly Route[], version: string): Json {
  const schemas: Json = { Error: errorSchema }
  const responses: Json = {}
  const paths: Record<string, Record<string, Operation>> = {}
  for (const route of routes) {
    const path = route.path.replaceAll(/:(\w+)/g, '{$1}')
    paths[path] ??= {}
    paths[path][route.method.toLowerCase()] = operation(route, schemas, responses)
  }
  const shared = shareQueryParameters(Object.values(paths).flatMap((path) => Object.values(path)))
  return {
    openapi: '3.1.0',
    info: {
      title: 'Gatehouse',
      version,
      description:
        'API keys, IP policies and restrictions, TCP and HTTPS edges. Error codes are explained in docs/reference/errors.md.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/', description: 'The installation that serves this document.' }],
    tags: tags(routes),
    security,
    paths,
    components: {
      ...sharedComponents,
      parameters: { ...sharedComponents.parameters, ...shared, DryRun: withResult(shared.DryRun, schemas) },
      responses: { ...responses, SentForApproval: sentForApproval(routes, schemas) },
      schemas,
    },
  }
}

/**
 * Not a response of each operation: generated clients would return a union from every change, which callers would have
 * to tell apart.
 */
const withResult = (parameter: unknown, schemas: Json): Json => ({
  ...(parameter as Json),
  'x-result': hoist(DryRunResult, schemas, 'response'),
})

/** Kept out of the operations for the same reason; `x-responses` of each refers to it. */
function sentForApproval(routes: readonly Route[], schemas: Json): Json {
  const shown = routes.find(({ operation }) => operation === 'change_sets.get')?.response
  return {
    description:
      'The account wants such changes approved. Nothing has been changed: the change set waits for the approval of another admin.',
    headers: { ...commonHeaders, ...header('ETag'), ...header('Location'), ...header('Idempotency-Replayed') },
    ...(shown && { content: { 'application/json': { schema: hoist(shown, schemas, 'response') } } }),
  }
}

const successHeaders = (route: Route): Json => ({
  ...commonHeaders,
  ...(route.tagged && header('ETag')),
  ...(route.success === 201 && route.response?.properties.uri && header('Location')),
  ...(route.method !== 'GET' && header('Service-Generation')),
  ...(route.query?.properties.wait && { ...header('Service-Applied'), ...header('Service-Behind') }),
  ...(route.query?.properties.rollout && header('Service-Takes-Along')),
  ...(route.errors?.includes('ERR_IDEMPOTENCY_KEY_USED') && header('Idempotency-Replayed')),
  ...(route.setsCookie && header('Set-Cookie')),
})

const isConditional = ({ method, tagged }: Route): boolean => method === 'GET' && tagged === true

function operation(route: Route, schemas: Json, sharedResponses: Json): Operation {
  const responses: Json = {
    [route.success]: {
      description: route.success === 204 ? 'Success, without a body.' : route.success === 201 ? 'Created.' : 'OK.',
      headers: successHeaders(route),
      ...(route.events && { content: { 'text/event-stream': eventStream(route.events, schemas) } }),
      ...(route.response && {
        content: {
          'application/json': { schema: hoist(route.response, schemas, 'response') },
          ...plainText(route.otherResponses),
        },
      }),
    },
    ...(isConditional(route) && {
      304: { description: 'You have the current state.', headers: { ...commonHeaders, ...header('ETag') } },
    }),
    ...errorResponses(route, sharedResponses),
  }
  return {
    operationId: route.operation,
    ...describe(route),
    tags: [tagOf(route)],
    ...(route.signsIn && { security: securityOfSignIn }),
    parameters: [
      ...(route.errors?.includes('ERR_PRECONDITION_FAILED') ? [{ $ref: '#/components/parameters/IfMatch' }] : []),
      ...(isConditional(route) ? [{ $ref: '#/components/parameters/IfNoneMatch' }] : []),
      ...(route.errors?.includes('ERR_IDEMPOTENCY_KEY_USED')
        ? [{ $ref: '#/components/parameters/IdempotencyKey' }]
        : []),
      ...Object.keys(route.params ?? {}).map((name) => ({
        name,
        in: 'path',
        required: true,
        schema: { type: 'string' },
        example: exampleOfParam(route.params[name]),
      })),
      ...(route.query?.properties.break_glass || route.query?.properties.rollout
        ? [{ $ref: '#/components/parameters/ServiceReason' }]
        : []),
      ...queryParameters(route.query),
    ],
    ...(route.body && {
      requestBody: {
        required: true,
        content: {
          'application/json': {
            schema: hoist({ ...bodySchema(route), title: nameOfBody(route) }, schemas, 'request'),
            example: exampleOf(route.body),
          },
          ...plainText(route.otherBodies),
        },
      },
    }),
    responses,
    ...(mayNeedApproval(route) && { 'x-responses': { 202: { $ref: '#/components/responses/SentForApproval' } } }),
  }
}

/** OpenAPI 3.1 cannot describe streams, so an extension describes the data of each event. */
const eventStream = (events: Readonly<Record<string, TSchema>>, schemas: Json): Json => ({
  schema: { type: 'string', description: `Server-sent events: ${Object.keys(events).join(', ')}. Their data is JSON.` },
  'x-events': Object.fromEntries(
    Object.entries(events).map(([name, schema]) => [name, hoist(schema, schemas, 'response')]),
  ),
})

const plainText = (others: object = {}): Json =>
  Object.fromEntries(Object.keys(others).map((type) => [type, { schema: { type: 'string' } }]))
