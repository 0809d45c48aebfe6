import { METHODS } from 'node:http'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { Refusal } from '../kernel/errors.ts'
import type { Id } from '../kernel/ids.ts'
import { answer, enter, type Incoming, prepare } from './answer.ts'
import type { Method, Route } from './route.ts'
import { sendResult } from './send.ts'
import type { Service } from './service.ts'

type Request = FastifyRequest<{ Params: Record<string, string>; Querystring: Record<string, unknown> }>

/** Every operation at its path, and 405 for the other methods of that path. */
export function serveRoutes(app: FastifyInstance, service: Service, routes: readonly Route[]): void {
  // Fastify reads no body: it would look at the content type before the role and the query. `answer` reads it in its turn.
  for (const method of METHODS) app.addHttpMethod(method, { hasBody: false, overrideExisting: true })
  for (const route of routes) serveRoute(app, service, route)
  for (const [path, methods] of methodsByPath(routes)) refuseOtherMethods(app, path, methods)
}

function serveRoute(app: FastifyInstance, service: Service, route: Route): void {
  const prepared = prepare(route)
  const incoming = ({ id, raw, params, query, facts }: Request): Incoming => ({
    service,
    route: prepared,
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
        const { body, headers } = await answer(incoming(request))
        reply.headers(headers)
        return await sendResult(request, reply, route, body)
      } finally {
        request.facts.turn?.end()
      }
    },
  })
}

function refuseOtherMethods(app: FastifyInstance, path: string, methods: readonly string[]): void {
  const allowed = methods.join(', ')
  app.route({
    method: METHODS.filter((method) => !methods.includes(method)),
    url: path,
    async handler(request, reply) {
      refuseEmptyParams(request)
      reply.header('Allow', allowed)
      throw new Refusal('ERR_METHOD_NOT_ALLOWED', `This path supports only ${allowed}.`)
    },
  })
}

export const noSuchPath = (): Refusal => new Refusal('ERR_ROUTE_NOT_FOUND', 'No operation has this path.')

/** The router lets a parameter be empty: `/api_keys/` would be a key without an id. */
function refuseEmptyParams({ params }: { params: unknown }): void {
  if (Object.values(params as object).includes('')) throw noSuchPath()
}

/** Whatever answers GET answers HEAD alike; Node leaves out the body. */
const methodsOf = ({ method }: Route): (Method | 'HEAD')[] => (method === 'GET' ? ['GET', 'HEAD'] : [method])

const methodsByPath = (routes: readonly Route[]): [path: string, methods: string[]][] =>
  [...Map.groupBy(routes, ({ path }) => path)].map(([path, those]) => [path, those.flatMap(methodsOf)])
