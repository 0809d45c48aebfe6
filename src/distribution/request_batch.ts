import { hourOf, rfc3339 } from '../kernel/clock.ts'
import { type Id, isId, momentOfUuid } from '../kernel/ids.ts'
import { parseRfc3339 } from '../kernel/time.ts'
import { type EdgeRequest, isEdgeRequest } from './requests.ts'

/** With the longest of everything, some 2.5 KB each: a batch stays below half of the default limit of NATS. */
export const maxBatchRequests = 200
export const maxBatchDrops = 1_000
/** Clocks differ a little. What is further ahead has not been. */
const maxAheadMs = 60 * 60 * 1_000
const hourMs = 60 * 60 * 1_000
const maxCount = 1_000_000_000
const uuidPattern = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/** A request that is kept: it has an account, and something about it is worth a look. */
export type KeptRequest = EdgeRequest & {
  account: NonNullable<EdgeRequest['account']>
  edge: NonNullable<EdgeRequest['edge']>
}
/** How many requests of an account a node did not keep within an hour. */
export type DroppedRequests = { account: Id<'ac'>; hour: string; count: number }
export type RequestBatch = {
  node: string
  /** The same when a batch is sent again because no answer came. */
  batch: string
  requests: KeptRequest[]
  dropped: DroppedRequests[]
}
/** `kept`: the node may forget the batch. `unreadable`: it makes no sense to send it again. */
export type BatchAnswer = 'kept' | 'unreadable'

export const isKept = (request: EdgeRequest): request is KeptRequest =>
  request.account !== null && request.edge !== null && request.outcome !== 'allowed'

/** `refused`: how many parts of it were out of bounds, and were left out. */
export type ReadBatch = { batch: RequestBatch; refused: number }

/**
 * A batch as the node sent it, or undefined when it is not one. Like a report, it comes from a node that may be broken or
 * stolen: everything is bounded here, and whether an account has such an edge is asked when it is written.
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
