import { randomUUID } from 'node:crypto'
import type { RequestReason } from '../../distribution/requests.ts'
import { maxTrafficCounts, type ReportedTraffic, type TrafficCount } from '../../distribution/traffic_report.ts'
import {
  countFigure,
  type JudgedFigure,
  latencyBucket,
  noTraffic,
  type TrafficFigure,
  trafficFigures,
} from '../../kernel/edge/traffic.ts'
import { diskFiles, type Files, writeAtomically } from '../disk/files.ts'
import type { RequestLine } from '../requests/feed.ts'

/** Counts kept while the control plane cannot be reached: about 40 MB. */
const maxKept = 100_000
/** Maximum size of a count as JSON without its latencies, and of a bucket or count in these. */
const [countBytes, latencyBytes] = [460, 11]
const batchBytes = 128
const minuteMs = 60_000

/** A client that leaves after waiting this long suggests that the backend is slow. */
const longWaitMs = 1_000

/** `counts` includes `judgedFigures` at its end, if there are any. */
type Waiting = Omit<TrafficCount, 'latencies' | 'judged'> & { latencies: Map<number, number> }
type Notes = { sender: string; batch: number; lost: number; sending: ReportedTraffic | null; waiting: TrafficCount[] }

const figureOfReason: Partial<Record<RequestReason, TrafficFigure>> = {
  ...{ all_down: 'unreachable', connect_failed: 'unreachable', connect_timeout: 'unreachable' },
  ...{ tls_failed: 'unreachable', no_response: 'no_response', response_invalid: 'no_response' },
  ...{ response_cut: 'no_response', response_timeout: 'timeout' },
  ...{ no_backend: 'edge', draining: 'edge', not_ready: 'edge', internal: 'edge' },
}

/** The figure that a request adds to besides `requests`. A fixed response is no error, even with status 500 or above. */
function figureOf({ request: { outcome, reason, status, upstream } }: RequestLine): TrafficFigure | undefined {
  if (outcome === 'refused' || outcome === 'limited') return outcome
  if (outcome === 'failed') return (reason && figureOfReason[reason]) ?? 'client'
  return status !== null && status >= 500 && upstream !== null ? 'backend_5xx' : undefined
}

function judgedFigureOf({ request }: RequestLine): JudgedFigure | undefined {
  const { outcome, reason, status, upstream, durationMs } = request
  if (upstream === null) return undefined
  if (outcome === 'failed') return reason === 'client_closed' && durationMs >= longWaitMs ? 'abandoned' : undefined
  const isAnswered = outcome === 'allowed' || outcome === 'warned'
  return isAnswered && status !== null && status >= 400 && status < 500 ? 'rejected' : undefined
}

/** A WebSocket lasts as long as its users stay, and a refused request says nothing about the application. */
const hasLatency = ({ request: { outcome, status } }: RequestLine): boolean =>
  status !== null && status !== 101 && outcome !== 'refused' && outcome !== 'limited'

/**
 * Counts finished traffic on this node by minute, route and backend until the control plane has stored the counts. A
 * batch keeps its number and content until it is confirmed, so that the control plane can recognize a repeated one. When
 * there is no more room, the account with the most counts loses detail, but no requests.
 */
export function createTrafficCounts({ most = maxKept, files = diskFiles }: { most?: number; files?: Files } = {}) {
  let sender: string = randomUUID()
  let batch = 0
  let lost = 0
  let sending: ReportedTraffic | undefined
  const waiting = createWaiting(most)

  /**
   * Takes back counts that no longer fit into a message. They count twice if they arrived and only the reply was lost.
   */
  function shorten(traffic: ReportedTraffic, maxBytes: number): void {
    let room = maxBytes - batchBytes
    const fitting = traffic.counts.findIndex((count, index) => {
      room -= bytesOf(count)
      return room < 0 && index > 0
    })
    if (fitting > 0) for (const count of traffic.counts.splice(fitting)) waiting.add(count)
  }

  return {
    /** Call this for each request and connection when it has ended. */
    add(line: RequestLine, now: number): void {
      const { account, edge, route, at, durationMs, protocol } = line.request
      if (account === null) return
      const ended = Math.min(Date.parse(at) + durationMs, now)
      const place = { account, edge, route, backend: line.backend, minute: ended - (ended % minuteMs) }
      const isKnown = edge !== null && (route !== null || protocol === 'tcp')
      const count = waiting.of(isKnown ? place : withoutDetail(place))
      if (!count) return void lost++
      countFigure(count.counts, 'requests')
      const [figure, judged] = [figureOf(line), judgedFigureOf(line)]
      if (figure) countFigure(count.counts, figure)
      if (judged) countFigure(count.counts, judged)
      if (protocol !== 'tcp' && hasLatency(line)) addTo(count.latencies, latencyBucket(durationMs), 1)
    },
    /** Requests whose lines did not reach this agent. */
    lose(requests: number): void {
      lost += requests
    },
    /** The batch to send; the same one until it is confirmed. Undefined if there is none. */
    next(maxBytes: number): ReportedTraffic | undefined {
      if (sending) shorten(sending, maxBytes)
      else {
        const counts = waiting.take(maxBytes - batchBytes)
        if (counts.length === 0 && lost === 0) return undefined
        sending = { sender, batch: ++batch, lost, counts }
        lost = 0
      }
      return sending
    },
    confirm(confirmed: number): void {
      if (confirmed === batch) sending = undefined
    },
    waiting: waiting.size,
    /** Saves the counts for the next agent on this node. */
    async save(file: string): Promise<void> {
      const notes: Notes = { sender, batch, lost, sending: sending ?? null, waiting: waiting.all() }
      if (sending || lost > 0 || notes.waiting.length > 0) await writeAtomically(files, file, [JSON.stringify(notes)])
    },
    /**
     * Adopts the undelivered counts of an earlier agent. Removes the file, so that no other agent delivers them again.
     */
    async load(file: string): Promise<void> {
      const text = await files.read(file).catch(() => undefined)
      if (text === undefined) return
      const notes = JSON.parse(`${text}`) as Notes
      await files.remove(file)
      ;({ sender, batch, lost } = notes)
      sending = notes.sending ?? undefined
      for (const count of notes.waiting) waiting.add(count)
    },
  }
}
export type TrafficCounting = ReturnType<typeof createTrafficCounts>

type Place = Omit<TrafficCount, 'counts' | 'latencies'>
const keyOf = ({ edge, route, backend, minute }: Place): string => `${minute} ${route ?? edge} ${backend}`

/** Counts by account, so that no account can displace those of others. */
function createWaiting(most: number) {
  const accounts = new Map<string, Map<string, Waiting>>()
  let size = 0

  function insert(place: Place): Waiting {
    const count: Waiting = { ...place, counts: noTraffic(), latencies: new Map() }
    const ofAccount = accounts.get(place.account) ?? new Map<string, Waiting>()
    accounts.set(place.account, ofAccount.set(keyOf(place), count))
    size++
    return count
  }
  /** Undefined if there is no room even for the account's total of the minute. */
  function of(place: Place): Waiting | undefined {
    const known = accounts.get(place.account)?.get(keyOf(place))
    if (known) return known
    if (size >= most) makeRoom()
    if (size < most) return insert(place)
    return place.edge === null ? undefined : of(withoutDetail(place))
  }
  /** Merges the oldest minute of the account with the most counts into one total. */
  function makeRoom(): void {
    let largest = new Map<string, Waiting>()
    for (const each of accounts.values()) if (each.size > largest.size) largest = each
    const all = [...largest.values()]
    const detailed = all.filter(({ edge }) => edge !== null)
    const [first] = detailed
    if (!first) return
    const total = largest.get(keyOf(withoutDetail(first))) ?? insert(withoutDetail(first))
    for (const each of detailed)
      if (each.minute === first.minute && largest.delete(keyOf(each))) {
        size--
        addUp(total, each.counts, each.latencies)
      }
  }
  function remove({ account, ...place }: Waiting): void {
    const ofAccount = accounts.get(account)
    if (!ofAccount?.delete(keyOf({ account, ...place }))) return
    size--
    if (ofAccount.size === 0) accounts.delete(account)
  }

  return {
    of,
    add({ counts, judged = [], latencies, ...place }: TrafficCount): void {
      const count = of(place)
      if (count) addUp(count, [...counts, ...judged], pairsOf(latencies))
    },
    /** Takes at least one count, if there is any. */
    take(maxBytes: number): TrafficCount[] {
      const taken: TrafficCount[] = []
      let room = maxBytes
      for (const ofAccount of [...accounts.values()])
        for (const each of ofAccount.values()) {
          const count = sentOf(each)
          room -= bytesOf(count)
          if (taken.length > 0 && (room < 0 || taken.length === maxTrafficCounts)) return taken
          taken.push(count)
          remove(each)
        }
      return taken
    },
    size: () => size,
    all: (): TrafficCount[] => [...accounts.values()].flatMap((each) => [...each.values()].map(sentOf)),
  }
}

const withoutDetail = ({ account, minute }: Place): Place => ({
  ...{ account, minute },
  ...{ edge: null, route: null, backend: null },
})
const bytesOf = ({ latencies }: TrafficCount): number => countBytes + latencies.length * latencyBytes
function sentOf({ counts, latencies, ...place }: Waiting): TrafficCount {
  const judged = counts.slice(trafficFigures.length)
  const isJudged = judged.some((count) => count > 0)
  return {
    ...{ ...place, counts: counts.slice(0, trafficFigures.length) },
    ...{ ...(isJudged && { judged }), latencies: flat(latencies) },
  }
}
const flat = (latencies: Map<number, number>): number[] => [...latencies].sort(([a], [b]) => a - b).flat()
const pairsOf = (pairs: readonly number[]): (readonly [number, number])[] =>
  pairs.flatMap((bucket, index) => (index % 2 === 0 ? [[bucket, pairs[index + 1] ?? 0] as const] : []))

function addUp(to: Waiting, counts: readonly number[], latencies: Iterable<readonly [number, number]>): void {
  for (const [index, count] of counts.entries()) to.counts[index] = (to.counts[index] ?? 0) + count
  for (const [bucket, count] of latencies) addTo(to.latencies, bucket, count)
}
function addTo(latencies: Map<number, number>, bucket: number, count: number): void {
  latencies.set(bucket, (latencies.get(bucket) ?? 0) + count)
}
