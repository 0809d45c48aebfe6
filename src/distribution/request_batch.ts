import { hourOf, rfc3339 } from '../kernel/clock.ts'
import { type Id, isId, momentOfUuid } from '../kernel/ids.ts'
import { parseRfc3339 } from '../kernel/time.ts'
import { type EdgeRequest, isEdgeRequest } from './requests.ts'

/** At maximum lengths, some 2.5 KB each: a batch stays below half of NATS's default limit. */
export const maxBatchRequests = 200
export const maxBatchDrops = 1_000
/** Clocks differ a little. A time further ahead is invalid. */
const maxAheadMs = 60 * 60 * 1_000
const hourMs = 60 * 60 * 1_000
const maxCount = 1_000_000_000
const uuidPattern = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/** A kept request has an account and is worth a look. */
export type KeptRequest = EdgeRequest & {
  account: NonNullable<EdgeRequest['account']>
  edge: NonNullable<EdgeRequest['edge']>
}
/** The number of an account's requests that a node did not keep within an hour. */
export type DroppedRequests = { account: Id<'ac'>; hour: string; count: number }
export type RequestBatch = {
  node: string
  /** Stays the same when an unanswered batch is sent again. */
  batch: string
  requests: KeptRequest[]
  dropped: DroppedRequests[]
}
/** `kept`: the node may forget the batch. `unreadable`: a retry is pointless. */
export type BatchAnswer = 'kept' | 'unreadable'

export const isKept = (request: EdgeRequest): request is KeptRequest =>
  request.account !== null && request.edge !== null && request.outcome !== 'allowed'

/** `refused`: number of parts that were out of bounds and left out. */
export type ReadBatch = { batch: RequestBatch; refused: number }

/**
 * Parses a batch, or returns undefined if it is invalid. The node may be broken or stolen, so everything is bounded
 * here; the write checks whether the account has such an edge.
 */
export function readBatch(text: string, subject: string, now: number, oldest: number): ReadBatch | undefined {
  const sent = parse(text)
  if (!isObject(sent) || !Array.isArray(sent.requests) || !Array.isArray(sent.dropped)) return undefined
  const { node, batch } = sent
  if (typeof node !== 'string' || subject.split('.').at(-1) !== node) return undefined
  if (typeof batch !== 'string' || !uuidPattern.test(batch)) return undefined
  const isTimely = (moment: number) => moment >= oldest && moment <= now + maxAheadMs
  const requests = sent.requests
    .slice(0, maxBatchRequests)
    .filter(isEdgeRequest)
    .filter(isKept)
    .filter((request) => request.node === node && isOfItsEdge(request))
    .filter(({ id, at }) => isTimely(momentOfUuid(id)) && isTimely(Date.parse(at)))
  const dropped = sent.dropped
    .slice(0, maxBatchDrops)
    .map((each) => readDropped(each, isTimely))
    .filter((each) => each !== undefined)
  const refused = sent.requests.length - requests.length + (sent.dropped.length - dropped.length)
  return { batch: { node, batch, requests, dropped }, refused }
}

const isOfItsEdge = ({ edge, route }: KeptRequest): boolean => isId('edghts', edge) || route === null

function readDropped(sent: unknown, isTimely: (moment: number) => boolean): DroppedRequests | undefined {
  if (!isObject(sent)) return undefined
  const { account, hour, count } = sent
  const moment = typeof hour === 'string' ? parseRfc3339(hour) : undefined
  if (typeof account !== 'string' || !isId('ac', account) || moment === undefined || !isTimely(moment + hourMs))
    return undefined
  if (!Number.isSafeInteger(count) || (count as number) < 1 || (count as number) > maxCount) return undefined
  return { account, hour: rfc3339(hourOf(moment)), count: count as number }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null
