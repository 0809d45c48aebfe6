import type { FastifyReply, FastifyRequest } from 'fastify'
import { toId } from '../kernel/ids.ts'

/** A call of the API, for tracing. It has no address, no URL and no header but the one that continues a trace. */
export type RequestSpan = {
  readonly operation: string
  readonly operationId: string
  readonly method: string
  /** The pattern, as in the log. */
  readonly path: string | null
  readonly status: number
  readonly account: string | undefined
  /** In milliseconds. */
  readonly endedAt: number
  readonly duration: number
  /** As the client sent it. */
  readonly traceparent: string | undefined
}

/** Undefined for probes, and for what is no operation. */
export function spanOf(request: FastifyRequest, reply: FastifyReply): RequestSpan | undefined {
  const { operation, caller } = request.facts
  if (operation === undefined) return undefined
  const { traceparent } = request.headers
  return {
    operation,
    operationId: request.id,
    method: request.method,
    path: request.routeOptions.url ?? null,
    status: reply.statusCode,
    account: caller && toId('ac', caller.accountId),
    endedAt: Date.now(),
    duration: reply.elapsedTime,
    traceparent: typeof traceparent === 'string' ? traceparent : undefined,
  }
}
