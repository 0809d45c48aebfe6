import { type Id, isId } from '../kernel/ids.ts'
import { parseAddress } from '../kernel/ip/address.ts'
import { isWithin, parseCidr } from '../kernel/ip/cidr.ts'
import { type EdgeRequest, isEdgeRequest, requestOutcomes } from './requests.ts'

/** A node forgets a watch that has not been renewed for this long. */
export const watchLeaseMs = 6_000
export const renewWatchesMs = 2_000
/** More than one process has at once: src/commands/serve.ts sets the limit. */
const maxWatches = 1_000
/** At maximum lengths, a quarter of NATS's largest message. */
export const maxTailLines = 100

/** Selects the requests of an account that a viewer sees live. Null matches all. */
export type Watch = {
  id: string
  account: Id<'ac'>
  edge: string | null
  /** One of `requestOutcomes`. */
  outcome: string | null
  /** A CIDR range. */
  source: string | null
}
/** All watches of one control plane process, sent every two seconds and at each change. */
export type Watches = { process: string; watches: Watch[] }

export type TailLine = { watches: string[]; request: EdgeRequest }
/** `dropped`: matching requests of each watch that the node did not send. */
export type Tail = { node: string; lines: TailLine[]; dropped: { watch: string; count: number }[] }

/** Compiled once, because a node calls it for every request of the account. */
export function matcherOf({ edge, outcome, source }: Watch): (request: EdgeRequest) => boolean {
  const range = source === null ? undefined : parseCidr(source).cidr
  return (request) => {
    if (edge !== null && request.edge !== edge) return false
    if (outcome !== null && request.outcome !== outcome) return false
    if (source === null) return true
    const address = parseAddress(request.source)
    return range !== undefined && address !== undefined && isWithin(range, address)
  }
}

/** Undefined if unreadable, for example from a control plane of another version. */
export function readWatches(text: string): Watches | undefined {
  const sent = parse(text)
  if (!isObject(sent) || !isShort(sent.process) || !Array.isArray(sent.watches)) return undefined
  return { process: sent.process, watches: sent.watches.slice(0, maxWatches).filter(isWatch) }
}

function isWatch(sent: unknown): sent is Watch {
  if (!isObject(sent) || !isShort(sent.id) || typeof sent.account !== 'string' || !isId('ac', sent.account))
    return false
  const { edge, outcome, source } = sent
  if (edge !== null && !isShort(edge)) return false
  if (outcome !== null && !requestOutcomes.some((known) => known === outcome)) return false
  return source === null || (isShort(source) && parseCidr(source).cidr !== undefined)
}

/** Parses a node's message, or returns undefined if it is invalid. Nodes may be broken or stolen: see readBatch(). */
export function readTail(text: string, subject: string): Tail | undefined {
  const sent = parse(text)
  if (!isObject(sent) || !Array.isArray(sent.lines) || !Array.isArray(sent.dropped)) return undefined
  const { node } = sent
  if (typeof node !== 'string' || subject.split('.').at(-1) !== node) return undefined
  return {
    node,
    lines: sent.lines.slice(0, maxTailLines).filter((line) => isLine(line, node)),
    dropped: sent.dropped.slice(0, maxWatches).filter(isDrop),
  }
}

const isLine = (sent: unknown, node: string): sent is TailLine =>
  isObject(sent) &&
  Array.isArray(sent.watches) &&
  sent.watches.length <= maxWatches &&
  sent.watches.every(isShort) &&
  isEdgeRequest(sent.request) &&
  sent.request.node === node

const isDrop = (sent: unknown): sent is Tail['dropped'][number] =>
  isObject(sent) && isShort(sent.watch) && Number.isSafeInteger(sent.count) && (sent.count as number) > 0

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null
const isShort = (value: unknown): value is string =>
  typeof value === 'string' && value.length > 0 && value.length <= 100
