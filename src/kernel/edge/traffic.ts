/**
 * Counts of finished requests and TCP connections, in the order of node reports. The last six are error kinds; a
 * request has at most one.
 */
export const trafficFigures = [
  /** All finished requests with any result. */
  'requests',
  'refused',
  'limited',
  /** The backend answered with a status of 500 or above. */
  'backend_5xx',
  /** Connecting failed: refused, timed out, broken TLS, or all servers down. */
  'unreachable',
  /** Connected, but the response was missing, broken or truncated. */
  'no_response',
  /** Connected, but no response in time. */
  'timeout',
  /** The edge answered because it has no backend, is draining, or failed. */
  'edge',
  /** Invalid requests, and clients that disconnected before the response. */
  'client',
] as const
export type TrafficFigure = (typeof trafficFigures)[number]
export const errorKinds = ['backend_5xx', 'unreachable', 'no_response', 'timeout', 'edge', 'client'] as const
export type ErrorKind = (typeof errorKinds)[number]

/** Additional counts for judging rollouts; not stored. */
export const judgedFigures = [
  /** The backend answered with a status from 400 to 499. */
  'rejected',
  /** Clients that disconnected after at least a second without a backend response. Also counted as `client`. */
  'abandoned',
] as const
export type JudgedFigure = (typeof judgedFigures)[number]
const allFigures: readonly (TrafficFigure | JudgedFigure)[] = [...trafficFigures, ...judgedFigures]

/** In the order of `trafficFigures`. */
export type TrafficCounts = number[]
export const noTraffic = (): TrafficCounts => trafficFigures.map(() => 0)
/** The counts of `judgedFigures` may follow those of `trafficFigures`. */
export const figureOf = (counts: readonly number[], figure: TrafficFigure | JudgedFigure): number =>
  counts[allFigures.indexOf(figure)] ?? 0
export function countFigure(counts: number[], figure: TrafficFigure | JudgedFigure): void {
  for (let index = counts.length; index < allFigures.length; index++) counts.push(0)
  const place = allFigures.indexOf(figure)
  counts[place] = (counts[place] ?? 0) + 1
}

/**
 * Latencies in milliseconds are counted in mergeable buckets: one per millisecond up to 25, then each 4 % wider than
 * the previous one. The middle of a bucket is within 2 % of every value in it.
 */
const exactUpTo = 25
const growth = 1.04
const longestMs = 60 * 60 * 1_000
const bucketOf = (ms: number): number => exactUpTo + Math.ceil(Math.log(ms / exactUpTo) / Math.log(growth))

export const lastLatencyBucket = bucketOf(longestMs)
export const latencyBucket = (ms: number): number =>
  ms <= exactUpTo ? Math.max(0, Math.ceil(ms)) : Math.min(bucketOf(ms), lastLatencyBucket)

export function latencyOfBucket(bucket: number): number {
  if (bucket <= exactUpTo) return bucket
  const upper = exactUpTo * growth ** (bucket - exactUpTo)
  return (2 * upper) / (1 + growth)
}

/** `buckets`: pairs of bucket and count, ascending. Undefined if nothing was counted. */
export function latencyQuantile(buckets: readonly (readonly [number, number])[], share: number): number | undefined {
  const total = buckets.reduce((sum, [, count]) => sum + count, 0)
  let below = 0
  for (const [bucket, count] of buckets) {
    below += count
    if (below >= share * total) return latencyOfBucket(bucket)
  }
  return undefined
}
