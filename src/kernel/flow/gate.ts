/** Lets a bounded number of things run at once, over all and for each owner. The rest wait their turn, for a bounded time. */
export type Gate = {
  /**
   * Resolves, when it is this one's turn, to the function that ends it. Rejects with `Crowded` when the wait is over or
   * too many of the owner wait already, and with the signal's reason when it is aborted.
   */
  readonly enter: (owner: string, signal?: AbortSignal) => Promise<() => void>
  readonly counts: () => { running: number; waiting: number }
}
export type GateLimits = { total: number; perOwner: number; maxWaitingPerOwner: number; waitMs: number }

/** There was no turn in time. */
export class Crowded extends Error {
  override readonly name = 'Crowded'
  /** Whether the owner's own share was used up, or that of everyone together. */
  readonly limit: 'owner' | 'total'

  constructor(limit: 'owner' | 'total') {
    super(limit === 'owner' ? 'the owner has as many as it may' : 'there are as many as there may be')
    this.limit = limit
  }
}

export function createGate({ total, perOwner, maxWaitingPerOwner, waitMs }: GateLimits): Gate {
  const running = new Map<string, number>()
  // In order of arrival within an owner. An owner that got a turn goes to the end, so that no one waits behind another's queue.
  const waiting = new Map<string, (() => void)[]>()
  let runningTotal = 0
  let waitingTotal = 0

  const hasRoom = (owner: string) => runningTotal < total && (running.get(owner) ?? 0) < perOwner

  function start(owner: string): () => void {
    runningTotal++
    running.set(owner, (running.get(owner) ?? 0) + 1)
    let ended = false
    return () => {
      if (ended) return
      ended = true
      runningTotal--
      const left = (running.get(owner) ?? 1) - 1
      if (left > 0) running.set(owner, left)
      else running.delete(owner)
      admitNext()
    }
  }

  function admitNext(): void {
    for (const [owner, queue] of waiting) {
      if (runningTotal >= total) return
      if (!hasRoom(owner)) continue
      waiting.delete(owner)
      const next = queue.shift()
      if (queue.length) waiting.set(owner, queue)
      waitingTotal--
      next?.()
    }
  }

  function leave(owner: string, turn: () => void): void {
    const queue = waiting.get(owner) ?? []
    const place = queue.indexOf(turn)
    if (place < 0) return
    queue.splice(place, 1)
    waitingTotal--
    if (queue.length === 0) waiting.delete(owner)
  }

  return {
    counts: () => ({ running: runningTotal, waiting: waitingTotal }),
    enter(owner, signal) {
      if (hasRoom(owner) && !waiting.has(owner)) return Promise.resolve(start(owner))
      const limit = () => ((running.get(owner) ?? 0) >= perOwner ? 'owner' : 'total')
      const queue = waiting.get(owner) ?? []
      if (queue.length >= maxWaitingPerOwner) return Promise.reject(new Crowded(limit()))
      return new Promise((resolve, reject) => {
        const settle = () => {
          clearTimeout(timer)
          signal?.removeEventListener('abort', giveUp)
        }
        const turn = () => {
          settle()
          resolve(start(owner))
        }
        const refuse = (error: unknown) => {
          settle()
          leave(owner, turn)
          reject(error)
        }
        const giveUp = () => refuse(signal?.reason)
        const timer = setTimeout(() => refuse(new Crowded(limit())), waitMs)
        signal?.addEventListener('abort', giveUp)
        queue.push(turn)
        waiting.set(owner, queue)
        waitingTotal++
        if (signal?.aborted) giveUp()
      })
    },
  }
}
