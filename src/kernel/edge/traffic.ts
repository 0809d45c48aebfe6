/**
 * What is counted of requests and TCP connections when they end, in the order in which nodes report it. The last six are
 * errors by kind; a request is in one of them at most.
 */
export const trafficFigures = [
  /** All that ended, however. */
  'requests',
  'refused',
  'limited',
  /** Answered by the backend with a status of 500 or above. */
  'backend_5xx',
  /** No connection: refused, timed out, broken TLS, or all servers down. */
  'unreachable',
  /** Connected, and then no response, a broken one, or one that was cut short. */
  'no_response',
  /** Connected, and no response in time. */
  'timeout',
  /** Answered by the edge, because it has no backend for it, is draining, or failed. */
  'edge',
  /** Broken requests, and clients that left before the response. */
  'client',
] as const
export type TrafficFigure = (typeof trafficFigures)[number]
export const errorKinds = ['backend_5xx', 'unreachable', 'no_response', 'timeout', 'edge', 'client'] as const
export type ErrorKind = (typeof errorKinds)[number]

/** Counted besides, for decisions about changes that are under way, and kept nowhere. */
export const judgedFigures = [
  /** Answered by the backend with a status from 400 to 499. */
  'rejected',
  /** Clients that left after a second or more without a response of the backend. They count as `client` too. */
  'abandoned',
] as const
export type JudgedFigure = (typeof judgedFigures)[number]
const allFigures: readonly (TrafficFigure | JudgedFigure)[] = [...trafficFigures, ...judgedFigures]

/** In the order of `trafficFigures`. */
export type TrafficCounts = number[]
export const noTraffic = (): TrafficCounts => trafficFigures.map(() => 0)
/** The counts may have those of `judgedFigures` behind them. */
export const figureOf = (counts: readonly number[], figure: TrafficFigure | JudgedFigure): number =>
  counts[allFigures.indexOf(figure)] ?? 0
export function countFigure(counts: number[], figure: TrafficFigure | JudgedFigure): void {
  for (let index = counts.length; index < allFigures.length; index++) counts.push(0)
  const place = allFigures.indexOf(figure)
  counts[place] = (counts[place] ?? 0) + 1
}

/**
 * Latencies in milliseconds are counted in buckets that can be added up: one for each millisecond up to 25, then each 4 %
 * wider than the one before. The middle of a bucket is at most 2 % from everything in it.
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

/** `buckets` are pairs of bucket and count, ascending. Undefined when nothing was counted. */
export function latencyQuantile(buckets: readonly (readonly [number, number])[], share: number): number | undefined {
  const total = buckets.reduce((sum, [, count]) => sum + count, 0)
  let below = 0
  for (const [bucket, count] of buckets) {
    below += count
    if (below >= share * total) return latencyOfBucket(bucket)
  }
  return undefined
}
