import fastify, {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  LogController,
} from 'fastify'
import { type Id, newId } from '../kernel/ids.ts'
import { serveRoutes } from './api.ts'
import { faultOfForm } from './checks.ts'
import { serveDashboard } from './files/dashboard.ts'
import { serveDocs } from './files/docs.ts'
import { serveReference } from './files/reference.ts'
import { serveGatheredReads } from './gather/gathered_reads.ts'
import { prepareAll } from './handling.ts'
import { answerUnreadable } from './input/unreadable.ts'
import { rateLimitHeaders } from './limits/rate_limits.ts'
import { openApiDocument } from './openapi/document.ts'
import { type PlainRoute, servePlainRoutes } from './plain.ts'
import { serveProbes } from './probes.ts'
import { type DocUrl, docUrlUnder, failureOf } from './refusals.ts'
import { conclude, endedOf } from './request_facts.ts'
import { noteSpan } from './request_span.ts'
import type { Route } from './route.ts'
import { send } from './send.ts'
import type { Service } from './service.ts'
import { ownUrl } from './vendor_clients.ts'

export type ServerOptions = {
  service: Service
  routes: readonly Route[]
  /** Routes outside the API, for signing in. */
  plainRoutes?: (service: Service) => readonly PlainRoute[]
  log: FastifyBaseLogger
  requestTimeoutMs: number
  /** Folder of the dashboard. Without it, no dashboard is served. */
  dashboardFolder?: string
  /**
   * Folders of the documentation and of Swagger UI. Without them, neither the documentation nor the API description is
   * served.
   */
  docs?: { folder: string; referenceFolder: string }
  version: string
}

/** Creates the HTTP server without listening. Closing it finishes requests in progress. */
export function createServer(options: ServerOptions): FastifyInstance {
  const { service, routes, plainRoutes, dashboardFolder, docs, version } = options
  const docUrl: DocUrl = docs ? docUrlUnder(service.publicUrl) : () => undefined
  const app = bareServer(options, docUrl)
  app.decorateRequest('facts')
  // Uses callbacks: Fastify awaits asynchronous hooks, and these have nothing to wait for.
  app.addHook('onRequest', (request, reply, done) => {
    begin(request, reply)
    done(faultOfForm(request.raw))
  })
  // Node would answer with a bare 417; `faultOfForm` refuses it in our format.
  app.server.on('checkExpectation', (request, response) => app.server.emit('request', request, response))
  app.addHook('onSend', (request, reply, payload, done) => {
    warn(request, reply)
    if (request.facts.limitUse) reply.headers(rateLimitHeaders(request.facts.limitUse))
    done(null, payload)
  })
  app.addHook('onResponse', (request, reply, done) => {
    const ended = endedOf(request, reply)
    conclude(ended, service.metrics, app.log)
    noteSpan(service, ended, request.headers.traceparent)
    done()
  })
  app.setErrorHandler(failWith(docUrl))
  closeBusyConnections(app)
  app.addHook('preClose', async () => service.streams.endAll())
  const prepared = prepareAll(routes)
  serveRoutes(app, service, routes, prepared)
  servePlainRoutes(app, service, plainRoutes?.(service) ?? [])
  serveProbes(app, service)
  if (docs) {
    serveReference(app, () => openApiDocument(routes, version), docs.referenceFolder, service.publicUrl)
    serveDocs(app, docs.folder, service.publicUrl)
  }
  if (dashboardFolder) {
    serveGatheredReads(app, service, prepared, docUrl)
    serveDashboard(app, dashboardFolder, service.publicUrl)
  }
  return app
}

const bareServer = ({ service, log, requestTimeoutMs }: ServerOptions, docUrl: DocUrl): FastifyInstance =>
  fastify({
    loggerInstance: log,
    // One logger for all requests. Fastify would create one per request, but each line has the operation id anyway.
    childLoggerFactory: (logger) => logger,
    logController: new LogController({ disableRequestLogging: true }),
    genReqId: () => newId('op'),
    requestIdHeader: false,
    rewriteUrl: (request) => ownUrl(request, service.versionHeaders),
    exposeHeadRoutes: false,
    // Time limit for receiving headers and body, however slowly they arrive.
    requestTimeout: requestTimeoutMs,
    keepAliveTimeout: 75_000,
    forceCloseConnections: 'idle',
    // During shutdown, open connections still get responses, which tell the client to reconnect.
    return503OnClosing: false,
    clientErrorHandler: answerUnreadable(log, docUrl),
    // As long as Node's limit of a request line: an overlong id must reach the checks and get the same 404.
    routerOptions: { maxParamLength: 16_384, ignoreTrailingSlash: false },
    // Hooks do not run for requests that Fastify itself refuses, so log them here.
    frameworkErrors(error, request, reply) {
      begin(request, reply)
      reply.raw.once('finish', () => conclude(endedOf(request, reply), service.metrics, log))
      return failWith(docUrl)(error, request, reply)
    },
    // Node would answer a missing Host with a bare 400. `faultOfForm` refuses it in our format.
    http: {
      requireHostHeader: false,
      headersTimeout: Math.min(requestTimeoutMs, 10_000),
      connectionsCheckingInterval: 1_000,
    },
  })

function begin(request: FastifyRequest, reply: FastifyReply): void {
  request.facts = {}
  reply.header('Operation-Id', request.id)
  reply.header('Cache-Control', 'no-store')
  reply.header('X-Content-Type-Options', 'nosniff')
}

const failWith =
  (docUrl: DocUrl) =>
  (error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply => {
    const { status, headers, body } = failureOf(error, request.facts, request.id as Id<'op'>, docUrl)
    return send(reply.headers(headers), status, body)
  }

/** Names the unenforced restrictions that would have refused this call, in addition to the handler's warnings. */
function warn({ facts: { warnedBy = [], refusedBy } }: FastifyRequest, reply: FastifyReply): void {
  // A refused caller learns nothing about the rules.
  if (warnedBy.length === 0 || refusedBy) return
  const others = reply.getHeader('Service-Warning') ?? []
  reply.header('Service-Warning', [others, ...warnedBy.map((id) => `ip_restriction=${id}`)].flat().join(', '))
}

/** Closes connections that were busy when shutdown began; otherwise clients would keep them open and delay it. */
function closeBusyConnections(app: FastifyInstance): void {
  let closing = false
  app.addHook('preClose', async () => {
    closing = true
  })
  app.addHook('onSend', (_request, reply, payload, done) => {
    if (closing) reply.header('Connection', 'close')
    done(null, payload)
  })
}
