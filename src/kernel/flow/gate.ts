/** Limits how many tasks run at once, in total and per owner. Others wait for a limited time. */
export type Gate = {
  /**
   * Waits for a slot and resolves to the function that releases it. Rejects with `Crowded` if the wait takes too long
   * or the owner has too many waiting, and with the signal's reason if it aborts.
   */
  readonly enter: (owner: string, signal?: AbortSignal) => Promise<() => void>
  readonly counts: () => { running: number; waiting: number }
}
export type GateLimits = { total: number; perOwner: number; maxWaitingPerOwner: number; waitMs: number }

/** No slot became free in time. */
export class Crowded extends Error {
  override readonly name = 'Crowded'
  /** Whether the owner's share or the total was used up. */
  readonly limit: 'owner' | 'total'

  constructor(limit: 'owner' | 'total') {
    super(limit === 'owner' ? 'the owner has as many as it may' : 'there are as many as there may be')
    this.limit = limit
  }
}

export function createGate({ total, perOwner, maxWaitingPerOwner, waitMs }: GateLimits): Gate {
  const running = new Map<string, number>()
  // First come, first served per owner. An owner that got a slot moves to the end, so that no one waits behind another
  // owner's queue.
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
