import type { FastifyBaseLogger, FastifyReply, FastifyRequest } from 'fastify'
import type { Caller } from '../identity/caller.ts'
import type { Id } from '../kernel/ids.ts'
import type { Address } from '../kernel/ip/address.ts'
import type { Turn } from './limits/heavy.ts'
import type { LimitUse } from './limits/rate_limits.ts'
import type { Metrics } from './metrics/metrics.ts'

/** What is known of a request. The checks fill it in as they pass; the response and the log line read it. */
export type RequestFacts = {
  operation?: string
  /** Where it comes from, as far as IP restrictions are concerned. Undefined when that cannot be read. */
  source?: Address
  sourceIp?: string
  caller?: Caller
  /** It is undone again. */
  isDryRun?: boolean
  /** The change waits for approval, as a change set. */
  isProposed?: boolean
  /** Why its changes do not wait for a watch, and the rollouts that come along. */
  urgent?: { readonly reason: string; readonly along: readonly string[] }
  /** Why the token was not good, if that is why. */
  expiredKeyId?: Id<'ak'>
  outsideRangesKeyId?: Id<'ak'>
  /** The restriction that refused this call, and those that would have if they were enforced. */
  refusedBy?: Id<'ipx'>
  warnedBy?: readonly Id<'ipx'>[]
  /** Why the response says that the status of something is unknown, if the database is why. */
  statusUnread?: string
  /** Whether there was a token that could be wrong. */
  sentToken?: boolean
  /** The limit that the response tells of. */
  limitUse?: LimitUse
  /** Set for a heavy operation, and ended with it. */
  turn?: Turn
  error?: unknown
}

/** A request whose response has ended. */
export type Ended = {
  readonly id: string
  readonly facts: RequestFacts
  readonly method: string
  /** The pattern, not the URL: secrets that a client puts into a URL by mistake stay out of the log. */
  readonly path: string | null
  readonly status: number
  readonly elapsedMs: number
  readonly isQuiet?: boolean | undefined
}

export const endedOf = (request: FastifyRequest, reply: FastifyReply): Ended => ({
  id: request.id,
  facts: request.facts,
  method: request.method,
  path: request.routeOptions.url ?? null,
  status: reply.statusCode,
  elapsedMs: reply.elapsedTime,
  isQuiet: request.routeOptions.config.quiet,
})

/** One log line for each request, and its part of the metrics. */
export function conclude(ended: Ended, metrics: Metrics, log: FastifyBaseLogger): void {
  const { id, facts, method, path, status, elapsedMs, isQuiet } = ended
  const {
    operation = 'none',
    caller,
    expiredKeyId,
    outsideRangesKeyId,
    sourceIp,
    limitUse,
    refusedBy,
    warnedBy,
    statusUnread,
    isDryRun,
    isProposed,
    error,
  } = facts
  metrics.observeRequest(operation, status, elapsedMs / 1_000)
  if (expiredKeyId) metrics.countExpiredKey()
  if (limitUse?.allowance.allowed === false) metrics.countRateLimited(limitUse.policy)
  if (operation === 'none' && isQuiet && status < 400) return
  const line = {
    operation_id: id,
    operation,
    method,
    path,
    status,
    duration_ms: Math.round(elapsedMs * 10) / 10,
    dry_run: isDryRun || undefined,
    sent_for_approval: isProposed || undefined,
    source_ip: sourceIp,
    owner_id: caller?.ownerId,
    api_key_id: caller?.apiKeyId,
    dashboard_session_id: caller?.sessionId,
    expired_api_key_id: expiredKeyId,
    outside_ranges_api_key_id: outsideRangesKeyId,
    refused_by: refusedBy,
    warned_by: warnedBy?.length ? warnedBy : undefined,
    status_unread: statusUnread,
  }
  if (error) log.error({ ...line, err: error }, 'request failed')
  else log.info(line, 'request')
}

declare module 'fastify' {
  interface FastifyRequest {
    facts: RequestFacts
  }
  interface FastifyContextConfig {
    /** Not logged unless it fails: probes come every few seconds. */
    quiet?: boolean
  }
}
