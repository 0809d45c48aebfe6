import type { IncomingMessage } from 'node:http'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Id } from '../kernel/ids.ts'
import { type Address, formatAddress } from '../kernel/ip/address.ts'
import { sourceAddress } from '../kernel/ip/source.ts'
import { limitReached } from './limits/rate_limits.ts'
import type { RequestFacts } from './request_facts.ts'
import type { Service } from './service.ts'

export type PlainRequest = {
  readonly operationId: Id<'op'>
  readonly raw: IncomingMessage
  readonly params: Readonly<Record<string, string>>
  readonly query: URLSearchParams
  readonly source: Address | undefined
  readonly sourceIp: string | undefined
  /** Fields for the log line. */
  readonly facts: RequestFacts
}
export type PlainAnswer = {
  readonly status: number
  readonly body?: unknown
  /** Redirect target. */
  readonly location?: string
  readonly cookies?: readonly string[]
}

/**
 * Requests outside the API. They have no authenticated caller yet and no Service-Version header, since browsers and
 * identity providers send them; so they are limited by address.
 */
export type PlainRoute = {
  readonly operation: string
  readonly method: 'GET' | 'POST'
  readonly path: `/${string}`
  /** Cheap enough to need no limit. */
  readonly unlimited?: true
  readonly handle: (request: PlainRequest) => Promise<PlainAnswer>
}

export function servePlainRoutes(app: FastifyInstance, service: Service, routes: readonly PlainRoute[]): void {
  for (const { operation, method, path, unlimited, handle } of routes)
    app.route({
      method,
      url: path,
      async handler(request, reply) {
        const plain = toPlain(service, operation, request)
        const use = unlimited ? undefined : service.rateLimits.countSignIn(plain.source)
        if (use && !use.allowance.allowed) {
          plain.facts.limitUse = use
          throw limitReached(use)
        }
        const { status, body, location, cookies = [] } = await handle(plain)
        reply.code(status).header('Referrer-Policy', 'no-referrer')
        for (const cookie of cookies) reply.header('Set-Cookie', cookie)
        if (location) reply.header('Location', location)
        if (body === undefined) return reply.send()
        return reply.type('application/json; charset=utf-8').send(JSON.stringify(body))
      },
    })
}

function toPlain({ trustedProxies }: Service, operation: string, request: FastifyRequest): PlainRequest {
  const { raw, id, facts } = request
  const source = sourceAddress(raw.socket.remoteAddress, raw.headersDistinct['x-forwarded-for'], trustedProxies)
  const sourceIp = source && formatAddress(source)
  Object.assign(facts, { operation, source, sourceIp })
  return {
    operationId: id as Id<'op'>,
    raw,
    params: request.params as Record<string, string>,
    query: new URL(raw.url ?? '/', 'http://path').searchParams,
    source,
    sourceIp,
    facts,
  }
}
