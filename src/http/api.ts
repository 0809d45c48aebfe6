import { METHODS } from 'node:http'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Refusal } from '../kernel/errors.ts'
import type { Id } from '../kernel/ids.ts'
import { answer, enter } from './answer.ts'
import type { Incoming, PreparedRoute } from './handling.ts'
import { suggestPath } from './input/paths.ts'
import { isUnchanged } from './preconditions.ts'
import { noSuchPath } from './refusals.ts'
import type { Method, Route } from './route.ts'
import { send, sendResult, sendStream } from './send.ts'
import type { Service } from './service.ts'

type Request = FastifyRequest<{ Params: Record<string, string>; Querystring: Record<string, unknown> }>

/** Registers every operation at its path, and answers other methods of that path with 405. */
export function serveRoutes(
  app: FastifyInstance,
  service: Service,
  routes: readonly Route[],
  prepared: Incoming['routes'],
): void {
  // Fastify must not read the body: it would check the content type before the role and the query. `answer` reads it
  // later.
  for (const method of METHODS) app.addHttpMethod(method, { hasBody: false, overrideExisting: true })
  for (const route of prepared.values()) serveRoute(app, service, route, prepared)
  const used = [...new Set(routes.flatMap(methodsOf))]
  for (const [path, methods] of methodsByPath(routes)) refuseOtherMethods(app, path, methods, used)
  app.setNotFoundHandler(refuseUnmatched(routes))
}

function serveRoute(app: FastifyInstance, service: Service, route: PreparedRoute, routes: Incoming['routes']): void {
  const incoming = ({ id, raw, params, query, facts }: Request): Incoming => ({
    service,
    route,
    routes,
    operationId: id as Id<'op'>,
    raw,
    params,
    query,
    facts,
  })
  app.route<{ Params: Record<string, string>; Querystring: Record<string, unknown> }>({
    method: methodsOf(route),
    url: route.path,
    async onRequest(request) {
      refuseEmptyParams(request)
      await enter(incoming(request))
    },
    async handler(request, reply) {
      try {
        const { body, headers, stream } = await answer(incoming(request))
        reply.headers(headers)
        if (stream) return sendStream(request, reply, stream)
        if (route.method === 'GET' && isUnchanged(request.raw.headers['if-none-match'], headers.ETag))
          return reply.code(304).send()
        const { isDryRun, isProposed } = request.facts
        if (isDryRun || isProposed) return send(reply, isProposed ? 202 : 200, body)
        return await sendResult(request, reply, route, body)
      } finally {
        request.facts.turn?.end()
      }
    },
  })
}

/** Covers only methods that some operation uses; `refuseUnmatched` refuses the others. */
function refuseOtherMethods(
  app: FastifyInstance,
  path: string,
  methods: readonly string[],
  used: readonly string[],
): void {
  app.route({
    method: used.filter((method) => !methods.includes(method)),
    url: path,
    async handler(request, reply) {
      refuseEmptyParams(request)
      refuseMethod(reply, methods)
    },
  })
}

/**
 * Answers unmatched requests with 404, or 405 if the path has operations. Registering all thirty unused methods at each
 * path would add a sixth to the server's start time.
 */
function refuseUnmatched(routes: readonly Route[]): (request: FastifyRequest, reply: FastifyReply) => never {
  const paths = methodsByPath(routes).map(([path, methods]) => ({ pattern: patternOf(path), methods }))
  const suggest = suggestPath(routes.map(({ path }) => path))
  return ({ url }, reply) => {
    const path = decodeURI(url.split(/[?#]/, 1)[0] ?? '')
    const found = paths.find(({ pattern }) => pattern.test(path))
    if (!found) throw noSuchPath(suggest(path))
    return refuseMethod(reply, found.methods)
  }
}

const patternOf = (path: string): RegExp => new RegExp(`^${path.replaceAll(/:\w+/g, '[^/]+')}$`)

function refuseMethod(reply: FastifyReply, methods: readonly string[]): never {
  const allowed = methods.join(', ')
  reply.header('Allow', allowed)
  throw new Refusal('ERR_METHOD_NOT_ALLOWED', `This path supports only ${allowed}.`)
}

/** The router accepts empty parameters: `/api_keys/` would be a key without an id. */
function refuseEmptyParams({ params, url }: { params: unknown; url: string }): void {
  const values = Object.values(params as object)
  const [path = ''] = url.split('?', 1)
  if (values.includes('')) throw noSuchPath(values.length === 1 && path.length < 100 ? path.slice(0, -1) : undefined)
}

/** HEAD is handled like GET; Node omits the body. */
const methodsOf = ({ method }: Route): (Method | 'HEAD')[] => (method === 'GET' ? ['GET', 'HEAD'] : [method])

const methodsByPath = (routes: readonly Route[]): [path: string, methods: string[]][] =>
  [...Map.groupBy(routes, ({ path }) => path)].map(([path, those]) => [path, those.flatMap(methodsOf)])
