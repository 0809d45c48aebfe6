import type { FastifyBaseLogger, FastifyReply, FastifyRequest } from 'fastify'
import type { Caller } from '../identity/caller.ts'
import type { Id } from '../kernel/ids.ts'
import type { Address } from '../kernel/ip/address.ts'
import type { Turn } from './limits/heavy.ts'
import type { LimitUse } from './limits/rate_limits.ts'
import type { Metrics } from './metrics/metrics.ts'

/** Facts about a request, collected by the checks and read by the response and the log line. */
export type RequestFacts = {
  operation?: string
  /** Source address for IP restrictions. Undefined if it cannot be parsed. */
  source?: Address
  sourceIp?: string
  caller?: Caller
  isDryRun?: boolean
  /** The change became a change set that waits for approval. */
  isProposed?: boolean
  /** Why its changes skip the watch, and the other rollouts that they release. */
  urgent?: { readonly reason: string; readonly along: readonly string[] }
  /** Set if the token was refused: the reason. */
  expiredKeyId?: Id<'ak'>
  outsideRangesKeyId?: Id<'ak'>
  /** The restriction that refused this call, and unenforced ones that would have. */
  refusedBy?: Id<'ipx'>
  warnedBy?: readonly Id<'ipx'>[]
  /** Why the response shows an unknown status, if the database is the reason. */
  statusUnread?: string
  /** Whether the request had a token. */
  sentToken?: boolean
  /** The limit that the response headers describe. */
  limitUse?: LimitUse
  /** Slot of a heavy operation; released when the request ends. */
  turn?: Turn
  error?: unknown
}

/** A request whose response has ended. */
export type Ended = {
  readonly id: string
  readonly facts: RequestFacts
  readonly method: string
  /** The route pattern instead of the URL, so that secrets in URLs stay out of the log. */
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

/** Writes the log line of a request and updates the metrics. */
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
    /** Logged only on failure: probes come every few seconds. */
    quiet?: boolean
  }
}
