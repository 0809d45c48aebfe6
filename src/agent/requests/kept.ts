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
 * Of an account within ten seconds, and of one address of it: a flood from one address leaves places to the others. The
 * control plane has a quota by the hour besides.
 */
const windowMs = 10_000
const perWindow = { account: 200, source: 30 }
/** What waits while the node is cut off. When it is full, only accounts of which nothing waits get a place. */
const maxWaiting = 10_000
const maxWaitingPerAccount = 500
const hardMaxWaiting = 2 * maxWaiting
const maxDropKeys = 5_000

/** Requests that are worth a look, until the control plane has them. */
export function createKept(node: string) {
  const waiting = new Map<string, KeptRequest[]>()
  let waitingTotal = 0
  let drops = new Map<string, DroppedRequests>()
  let droppedTotal = 0
  let windowBegan = 0
  let seen = new Map<string, number>()

  /** Counts what finds a place, and nothing else: so there are no more keys than places. */
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
  function hasRoom(queue: readonly KeptRequest[]): boolean {
    if (queue.length === 0) return waitingTotal < hardMaxWaiting
    return waitingTotal < maxWaiting && queue.length < maxWaitingPerAccount
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
    /** For every request of the node: those that nobody will ask about are let go. */
    add(request: EdgeRequest, now: number): void {
      if (!isKept(request)) return
      const queue = waiting.get(request.account) ?? []
      if (!isWithinWindow(request, now) || !hasRoom(queue)) {
        drop(request)
        return
      }
      queue.push(request)
      waiting.set(request.account, queue)
      waitingTotal++
    },
    /** The next batch, of all accounts in turn. Undefined when nothing waits. */
    take(): RequestBatch | undefined {
      if (waitingTotal === 0 && drops.size === 0) return undefined
      const requests: KeptRequest[] = []
      while (requests.length < maxBatchRequests && waiting.size > 0)
        for (const [account, queue] of waiting) {
          const next = queue.shift()
          if (next) requests.push(next)
          if (queue.length === 0) waiting.delete(account)
          if (requests.length === maxBatchRequests) break
        }
      waitingTotal -= requests.length
      const dropped = [...drops.values()].slice(0, maxBatchDrops)
      drops = new Map([...drops].slice(maxBatchDrops))
      return { node, batch: randomUUID(), requests, dropped }
    },
    counts: () => ({ waiting: waitingTotal, dropped: droppedTotal }),
  }
}
export type Kept = ReturnType<typeof createKept>
