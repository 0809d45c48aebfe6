import { randomUUID } from 'node:crypto'
import {
  type DroppedRequests,
  isKept,
  type KeptRequest,
  maxBatchDrops,
  maxBatchRequests,
  type RequestBatch,
} from '../../distribution/request_batch.ts'
import type { EdgeRequest } from '../../distribution/requests.ts'

/**
 * Limits for an account and for one of its addresses, per ten seconds: a flood from one address leaves room for others.
 * The control plane also has an hourly quota.
 */
const windowMs = 10_000
const perWindow = { account: 200, source: 30 }
/**
 * Limits the requests that wait while the node is cut off. When full, only accounts without waiting requests get a
 * place.
 */
const maxWaiting = 10_000
const maxWaitingPerAccount = 500
const hardMaxWaiting = 2 * maxWaiting
const maxDropKeys = 5_000
/** Maximum sizes as JSON: one count of dropped requests, and a batch without its contents. */
const dropBytes = 128
const batchBytes = 512

function createQueues() {
  const queues = new Map<string, KeptRequest[]>()
  let total = 0
  return {
    total: () => total,
    hasRoom(account: string): boolean {
      const count = queues.get(account)?.length ?? 0
      if (count === 0) return total < hardMaxWaiting
      return total < maxWaiting && count < maxWaitingPerAccount
    },
    add(request: KeptRequest): void {
      const queue = queues.get(request.account) ?? []
      queue.push(request)
      queues.set(request.account, queue)
      total++
    },
    /** Puts requests back in order, before all others. */
    giveBack(requests: readonly KeptRequest[]): void {
      for (const request of requests.toReversed())
        queues.set(request.account, [request, ...(queues.get(request.account) ?? [])])
      total += requests.length
    },
    /** Takes requests of the accounts in turn, as many as fit. `onTooLarge` gets requests that fit into no message. */
    take(maxBytes: number, onTooLarge: (request: KeptRequest) => void): KeptRequest[] {
      const taken: KeptRequest[] = []
      let room = maxBytes
      while (queues.size > 0)
        for (const [account, queue] of queues) {
          const bytes = Buffer.byteLength(JSON.stringify(queue[0])) + 1
          if (bytes > room && taken.length > 0) return taken
          const next = queue.shift() as KeptRequest
          total--
          if (queue.length === 0) queues.delete(account)
          if (bytes > room) {
            onTooLarge(next)
            continue
          }
          taken.push(next)
          room -= bytes
          if (taken.length === maxBatchRequests) return taken
        }
      return taken
    },
  }
}

/** Keeps the requests worth a look until the control plane has them. */
export function createKept(node: string) {
  const waiting = createQueues()
  let drops = new Map<string, DroppedRequests>()
  let droppedTotal = 0
  let windowBegan = 0
  let seen = new Map<string, number>()

  /** Counts only requests that get a place, so that there are never more keys than places. */
  function isWithinWindow({ account, source }: KeptRequest, now: number): boolean {
    if (now - windowBegan >= windowMs) {
      windowBegan = now
      seen = new Map()
    }
    const address = `${account} ${source}`
    const [ofAccount, ofSource] = [seen.get(account) ?? 0, seen.get(address) ?? 0]
    if (ofAccount >= perWindow.account || ofSource >= perWindow.source) return false
    seen.set(account, ofAccount + 1).set(address, ofSource + 1)
    return true
  }
  function drop({ account, at }: KeptRequest): void {
    droppedTotal++
    const hour = `${at.slice(0, 13)}:00:00.000Z`
    const key = `${account} ${hour}`
    const known = drops.get(key)
    if (known) known.count++
    else if (drops.size < maxDropKeys) drops.set(key, { account, hour, count: 1 })
  }

  return {
    /** Call this for every request of the node. It keeps only the kinds that users can query. */
    add(request: EdgeRequest, now: number): void {
      if (!isKept(request)) return
      if (isWithinWindow(request, now) && waiting.hasRoom(request.account)) waiting.add(request)
      else drop(request)
    },
    /** The next batch of at most this many bytes as JSON, from all accounts in turn. Undefined if nothing waits. */
    take(maxBytes: number): RequestBatch | undefined {
      if (waiting.total() === 0 && drops.size === 0) return undefined
      const room = maxBytes - batchBytes
      const count = Math.min(maxBatchDrops, Math.max(1, Math.floor(room / 2 / dropBytes)))
      const dropped = [...drops.values()].slice(0, count)
      drops = new Map([...drops].slice(count))
      return { node, batch: randomUUID(), requests: waiting.take(room - dropped.length * dropBytes, drop), dropped }
    },
    /** Returns a batch that the server no longer accepts, because it takes smaller messages now. */
    giveBack({ requests, dropped }: RequestBatch): void {
      waiting.giveBack(requests)
      for (const drop of dropped) {
        const key = `${drop.account} ${drop.hour}`
        drops.set(key, { ...drop, count: drop.count + (drops.get(key)?.count ?? 0) })
      }
    },
    counts: () => ({ waiting: waiting.total(), dropped: droppedTotal }),
  }
}
export type Kept = ReturnType<typeof createKept>
