import { judgedFigures, lastLatencyBucket, trafficFigures } from '../kernel/edge/traffic.ts'
import { isId } from '../kernel/ids.ts'

const minuteMs = 60_000
/** A node that was cut off for longer has to join again. */
const oldestMs = 7 * 24 * 60 * minuteMs
/** Clocks differ a little. A time further ahead is invalid. */
const maxAheadMs = 2 * minuteMs
/** More than one node can serve between two batches. */
const maxCount = 1_000_000_000
/** Limit for one report, which the control plane writes in one transaction. */
export const maxTrafficCounts = 2_000
const maxLatencies = 2 * (lastLatencyBucket + 1)

/**
 * Finished traffic on a node within a minute, at one TCP edge or at one route with one backend. If the node had no room,
 * `edge`, `route` and `backend` are null, and the count is the account's total.
 */
export type TrafficCount = {
  account: string
  edge: string | null
  route: string | null
  backend: string | null
  /** Start of the minute, in milliseconds. */
  minute: number
  /** In the order of `trafficFigures`. */
  counts: number[]
  /**
   * In the order of `judgedFigures`, if present. Separate, because older control planes drop counts that they do not
   * know.
   */
  judged?: number[]
  /** Pairs of a bucket and a count, for answered HTTP requests that were neither refused nor limited. */
  latencies: number[]
}

/** Batches of one sender have ascending numbers, so that a repeated one is added once. */
export type ReportedTraffic = {
  sender: string
  batch: number
  /** Requests about which nothing is known, because the agent could not keep up. */
  lost: number
  counts: TrafficCount[]
}
export const keptTraffic = (batch: number): string => `kept traffic ${batch}`

/** Undefined if it is not a batch. `dropped`: number of implausible counts. */
export function readTraffic(sent: unknown, now: number): { read: ReportedTraffic; dropped: number } | undefined {
  if (!isObject(sent) || !Array.isArray(sent.counts) || !isCount(sent.batch)) return undefined
  const { sender, batch, lost } = sent
  if (typeof sender !== 'string' || !/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(sender)) return undefined
  const counts = sent.counts
    .slice(0, maxTrafficCounts)
    .map((each) => readCount(each, now))
    .filter((each) => each !== undefined)
  return {
    read: { sender, batch, lost: isCount(lost) ? lost : 0, counts },
    dropped: sent.counts.length - counts.length,
  }
}

function readCount(sent: unknown, now: number): TrafficCount | undefined {
  if (!isObject(sent) || !isPlace(sent)) return undefined
  const { account, edge, route, backend, minute, counts, judged, latencies } = sent
  const isTimely = Number.isSafeInteger(minute) && minute >= now - oldestMs && minute <= now + maxAheadMs
  if (!isTimely || minute % minuteMs !== 0) return undefined
  if (!Array.isArray(counts) || counts.length !== trafficFigures.length || !counts.every(isCount)) return undefined
  const [requests = 0, ...parts] = counts
  // Refused, limited and failed requests are included in the total.
  if (requests === 0 || parts.reduce((sum, part) => sum + part, 0) > requests) return undefined
  if (!Array.isArray(latencies) || !areLatencies(latencies, requests)) return undefined
  if (judged !== undefined && !areJudged(judged, requests)) return undefined
  return { account, edge, route, backend, minute, counts, ...(judged !== undefined && { judged }), latencies }
}

const areJudged = (counts: unknown, requests: number): counts is number[] =>
  Array.isArray(counts) &&
  counts.length === judgedFigures.length &&
  counts.every(isCount) &&
  counts.reduce((sum, count) => sum + count, 0) <= requests

type Place = Pick<TrafficCount, 'account' | 'edge' | 'route' | 'backend'>
function isPlace(
  sent: Record<string, unknown>,
): sent is Place & { minute: number; counts: unknown; judged: unknown; latencies: unknown } {
  const { account, edge, route, backend } = sent
  if (typeof account !== 'string' || !isId('ac', account)) return false
  if (edge === null) return route === null && backend === null
  if (typeof edge !== 'string' || !(route === null || typeof route === 'string')) return false
  if (!(route === null ? isId('edgtcp', edge) : isId('edghts', edge) && isId('edghtsrt', route))) return false
  return backend === null || (typeof backend === 'string' && isBackend(backend))
}

const backendPrefixes = ['bkdst', 'bkdwd', 'bkdfo', 'bkdhr'] as const
export const isBackend = (text: string): boolean => backendPrefixes.some((prefix) => isId(prefix, text))

function areLatencies(pairs: unknown[], requests: number): pairs is number[] {
  if (pairs.length % 2 !== 0 || pairs.length > maxLatencies || !pairs.every(isCount)) return false
  const buckets = pairs.filter((_, index) => index % 2 === 0)
  const counted = pairs.reduce((sum, count, index) => sum + (index % 2 === 0 ? 0 : count), 0)
  return (
    buckets.every((bucket, index) => bucket <= lastLatencyBucket && bucket > (buckets[index - 1] ?? -1)) &&
    counted <= requests
  )
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null
const isCount = (value: unknown): value is number =>
  Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= maxCount
