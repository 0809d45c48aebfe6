import fastify, {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  LogController,
} from 'fastify'
import { Refusal } from '../kernel/errors.ts'
import { type Id, newId } from '../kernel/ids.ts'
import { answer, prepare, type RequestFacts, type Service } from './answer.ts'
import { serveDashboard } from './dashboard.ts'
import type { Metrics } from './metrics.ts'
import { openApiDocument } from './openapi/document.ts'
import { readinessFaults } from './readiness.ts'
import { serveReference } from './reference.ts'
import { errorBody, toRefusal } from './refusals.ts'
import type { Method, Route } from './route.ts'
import { send, sendResult } from './send.ts'
import { answerUnreadable } from './unreadable.ts'

export type ServerOptions = {
  service: Service
  routes: readonly Route[]
  metrics: Metrics
  log: FastifyBaseLogger
  requestTimeoutMs: number
  /** Where the files of the dashboard are. Without it there is no dashboard. */
  dashboardFolder?: string
  /** Where the files of Swagger UI are. Without it the description of the API is not served. */
  referenceFolder?: string
  version: string
}

/** The HTTP server, not yet listening. Closing it finishes what is in flight. */
export function createServer(options: ServerOptions): FastifyInstance {
  const { service, routes, metrics, log, requestTimeoutMs, dashboardFolder, referenceFolder, version } = options
  const app = fastify({
    loggerInstance: log,
    logController: new LogController({ disableRequestLogging: true }),
    genReqId: () => newId('op'),
    requestIdHeader: false,
    exposeHeadRoutes: false,
    // Headers and body must have arrived within this time, however slowly they trickle.
    requestTimeout: requestTimeoutMs,
    keepAliveTimeout: 75_000,
    forceCloseConnections: 'idle',
    // While closing, open connections still get answers, which tell the client to reconnect.
    return503OnClosing: false,
    clientErrorHandler: answerUnreadable(log),
    // As long as Node lets a request line be: an id of any length must reach the checks, and be one that does not exist.
    routerOptions: { maxParamLength: 16_384, ignoreTrailingSlash: false },
    // Hooks do not run for requests that Fastify itself refuses, but they must be logged like any other.
    frameworkErrors(error, request: FastifyRequest, reply: FastifyReply) {
      begin(request, reply)
      reply.raw.once('finish', () => conclude(request, reply))
      return fail(error, request, reply)
    },
    http: { headersTimeout: Math.min(requestTimeoutMs, 10_000), connectionsCheckingInterval: 1_000 },
  })
  const factsOf = new WeakMap<FastifyRequest, RequestFacts>()

  const fail = (error: unknown, request: FastifyRequest, reply: FastifyReply) => {
    const refusal = toRefusal(error)
    const facts = factsOf.get(request)
    if (facts) facts.error = refusal.status >= 500 ? (refusal.cause ?? refusal) : undefined
    if (refusal.status === 401) reply.header('WWW-Authenticate', 'Bearer')
    if (refusal.code === 'ERR_UNAVAILABLE') reply.header('Retry-After', '1')
    if (refusal.status === 429) reply.header('Retry-After', refusal.details.retry_after_seconds)
    warn(reply, facts)
    return send(reply, refusal.status, errorBody(refusal, request.id as Id<'op'>))
  }

  const begin = (request: FastifyRequest, reply: FastifyReply) => {
    factsOf.set(request, {})
    reply.header('Operation-Id', request.id)
    reply.header('Cache-Control', 'no-store')
    reply.header('X-Content-Type-Options', 'nosniff')
  }

  app.addHook('onRequest', async (request, reply) => {
    begin(request, reply)
    // Fastify would judge the content type before the version and the token are looked at. answer() reads it from the raw headers.
    delete request.headers['content-type']
  })
  let closing = false
  app.addHook('preClose', async () => {
    closing = true
  })
  // A connection that was busy when closing began would otherwise be kept by its client, and hold up the end.
  app.addHook('onSend', (_request, reply, payload, done) => {
    if (closing) reply.header('Connection', 'close')
    done(null, payload)
  })
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request, _payload, done) => done(null))
  app.setErrorHandler(fail)
  app.setNotFoundHandler((request, reply) => {
    const allowed = methodsAt(routes, request.url.split('?')[0] ?? '')
    if (allowed.length === 0)
      return fail(new Refusal('ERR_ROUTE_NOT_FOUND', 'No operation has this path.'), request, reply)
    reply.header('Allow', allowed.join(', '))
    return fail(new Refusal('ERR_METHOD_NOT_ALLOWED', `This path supports only ${allowed.join(', ')}.`), request, reply)
  })

  const conclude = (request: FastifyRequest, reply: FastifyReply) => {
    const {
      operation = 'none',
      caller,
      expiredKeyId,
      sourceIp,
      refusedBy,
      warnedBy,
      error,
    } = factsOf.get(request) ?? ({} as Partial<RequestFacts>)
    metrics.observeRequest(operation, reply.statusCode, reply.elapsedTime / 1_000)
    if (expiredKeyId) metrics.countExpiredKey()
    if (operation === 'none' && request.routeOptions.config.quiet && reply.statusCode < 400) return
    const line = {
      operation_id: request.id,
      operation,
      method: request.method,
      // The pattern, not the URL: whatever a client puts into a URL by mistake stays out of the log.
      path: request.routeOptions.url ?? null,
      status: reply.statusCode,
      duration_ms: Math.round(reply.elapsedTime * 10) / 10,
      source_ip: sourceIp,
      owner_id: caller?.ownerId,
      api_key_id: caller?.apiKeyId,
      dashboard_session_id: caller?.sessionId,
      expired_api_key_id: expiredKeyId,
      refused_by: refusedBy,
      warned_by: warnedBy?.length ? warnedBy : undefined,
    }
    if (error) log.error({ ...line, err: error }, 'request failed')
    else log.info(line, 'request')
  }
  app.addHook('onResponse', async (request, reply) => conclude(request, reply))

  for (const route of routes) {
    const prepared = prepare(route)
    app.route({
      method: methodsOf(route),
      url: route.path,
      handler: async (request, reply) => {
        // The router lets a parameter be empty: `/api_keys/` would be a key without an id.
        if (Object.values(request.params as object).includes('')) return reply.callNotFound()
        const facts = factsOf.get(request) ?? {}
        try {
          const { body, headers } = await answer(service, prepared, request, facts)
          reply.headers(headers)
          warn(reply, facts)
          return await sendResult(request, reply, route, body)
        } finally {
          facts.endTurn?.()
        }
      },
    })
  }

  const quiet = { config: { quiet: true }, exposeHeadRoute: true }
  app.get('/healthz', quiet, async (_request, reply) => send(reply, 200, { status: 'ok' }))
  app.get('/readyz', quiet, async (_request, reply) => {
    const faults = await readinessFaults(service.db)
    if (faults.length) log.warn({ faults }, 'not ready')
    if (faults.length) return send(reply, 503, { status: 'not ready', faults })
    // The API does without NATS, and every other process has the same trouble: taking this one away would not help.
    const warning = service.edges.fault()
    return send(reply, 200, { status: 'ready', ...(warning && { warnings: [warning] }) })
  })
  if (referenceFolder) serveReference(app, openApiDocument(routes, version), referenceFolder, service.publicUrl)
  if (dashboardFolder) serveDashboard(app, dashboardFolder, service.publicUrl)
  app.get('/metrics', quiet, async (_request, reply) => reply.type(metrics.contentType).send(await metrics.text()))
  return app
}

/** Tells a client which restrictions would have refused this call, were they enforced, beside what the handler warns of. */
function warn(reply: FastifyReply, facts: RequestFacts | undefined): void {
  // A refused caller learns nothing about the rules.
  if (!facts?.warnedBy?.length || facts.refusedBy) return
  const others = reply.getHeader('Service-Warning') ?? []
  reply.header('Service-Warning', [others, ...facts.warnedBy.map((id) => `ip_restriction=${id}`)].flat().join(', '))
}

/** Whatever answers GET answers HEAD alike; Node leaves out the body. */
const methodsOf = ({ method }: Route): (Method | 'HEAD')[] => (method === 'GET' ? ['GET', 'HEAD'] : [method])

function methodsAt(routes: readonly Route[], path: string): string[] {
  const steps = path.split('/')
  const fits = (pattern: string) => {
    const wanted = pattern.split('/')
    return (
      wanted.length === steps.length &&
      wanted.every((step, index) => (step.startsWith(':') ? steps[index] : step === steps[index]))
    )
  }
  return routes.filter((route) => fits(route.path)).flatMap(methodsOf)
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Not logged unless it fails: probes come every few seconds. */
    quiet?: boolean
  }
}
