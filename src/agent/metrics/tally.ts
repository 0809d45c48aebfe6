import type { EdgeRequest, RequestReason } from '../../distribution/requests.ts'

/** Upper bounds in seconds; one more bucket takes slower requests. Few, because every route has all of them. */
export const latencyBounds = [0.025, 0.1, 0.5, 2.5] as const
export const statusClasses = ['none', '1xx', '2xx', '3xx', '4xx', '5xx'] as const

const upstreamReasons: ReadonlySet<RequestReason> = new Set<RequestReason>([
  ...(['all_down', 'connect_failed', 'connect_timeout', 'tls_failed'] as const),
  ...(['no_response', 'response_timeout', 'response_invalid', 'response_cut'] as const),
])

/** Counts of a route, a TCP edge or an account since it was first seen. */
export function createTally() {
  return {
    statuses: statusClasses.map(() => 0),
    latencies: [...latencyBounds.map(() => 0), 0],
    milliseconds: 0,
    /** TCP connections. */
    connections: 0,
    refused: 0,
    limited: 0,
    upstreamErrors: 0,
    bytesIn: 0,
    bytesOut: 0,
    /** Time of the last count, in milliseconds. */
    at: 0,
  }
}
export type Tally = ReturnType<typeof createTally>

const increment = (counts: number[], index: number): void => {
  counts[index] = (counts[index] ?? 0) + 1
}

export function count(tally: Tally, request: EdgeRequest, now: number): void {
  const { protocol, status, durationMs, outcome, reason } = request
  tally.at = now
  if (protocol === 'tcp') tally.connections++
  else {
    const first = Math.floor((status ?? 0) / 100)
    increment(tally.statuses, first < statusClasses.length ? first : 0)
    const bound = latencyBounds.findIndex((seconds) => durationMs <= seconds * 1_000)
    increment(tally.latencies, bound < 0 ? latencyBounds.length : bound)
    tally.milliseconds += durationMs
  }
  tally.bytesIn += request.bytesIn
  tally.bytesOut += request.bytesOut
  if (outcome === 'refused') tally.refused++
  if (outcome === 'limited') tally.limited++
  if (reason !== null && upstreamReasons.has(reason)) tally.upstreamErrors++
}
