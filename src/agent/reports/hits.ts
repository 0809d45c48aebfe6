import { randomUUID } from 'node:crypto'
import type { EdgeHit as Hit, HitBatch } from '../../distribution/channels.ts'

const maxKept = 10_000

/**
 * Accumulates refusals and warnings of this node until the control plane has stored them. A batch keeps its number and
 * content until it is confirmed, so that the control plane can recognize a repeated one.
 */
export function createHits() {
  const sender = randomUUID()
  let batch = 0
  let sending: Hit[] = []
  const waiting = new Map<string, Hit>()
  const add = (hit: Hit) => {
    const key = `${hit.restriction} ${hit.target} ${hit.source} ${hit.outcome} ${hit.lastAt.slice(0, 13)}`
    const known = waiting.get(key)
    if (known) {
      known.count += hit.count
      known.lastAt = hit.lastAt > known.lastAt ? hit.lastAt : known.lastAt
    } else if (waiting.size < maxKept) waiting.set(key, { ...hit })
  }
  return {
    add,
    /**
     * The batch to send; the same one until it is confirmed. Undefined if there is none. If the server accepts fewer
     * hits now, the rest comes later, and counts twice if the whole batch arrived and only its confirmation was lost.
     */
    next(most: number): (HitBatch & { hits: Hit[] }) | undefined {
      sending.splice(Math.max(1, most)).forEach(add)
      if (sending.length === 0) {
        for (const [key, hit] of waiting.entries().take(Math.max(1, most))) {
          waiting.delete(key)
          sending.push(hit)
        }
        if (sending.length > 0) batch++
      }
      return sending.length > 0 ? { sender, batch, hits: sending } : undefined
    },
    confirm(confirmed: number): void {
      if (confirmed === batch) sending = []
    },
  }
}
