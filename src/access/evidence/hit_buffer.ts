import type { Db } from '../../db/pool.ts'
import { writeSalvaging } from '../../db/salvage.ts'
import { hourOf } from '../../kernel/clock.ts'
import type { Uuid } from '../../kernel/ids.ts'
import { addCounts, type Count, type Outcome } from './counts.ts'
import { addEdgeCounts, type EdgeCount } from './edge_counts.ts'
import { insertRefusals, type RefusalRow } from './refusals.ts'

// Beyond this many within one interval, counts of further addresses and details of further refusals are lost, and that is
// counted: a flood must not become a memory leak or a flood of writes.
const maxCounts = 20_000
const maxRefusals = 5_000

export type Hit = {
  restrictionId: Uuid
  sourceIp: string
  outcome: Outcome
  apiKeyId: string | null
  at: number
}
export type EdgeHit = Omit<EdgeCount, 'hour' | 'count' | 'lastAt'> & { at: number }
export type HitBuffer = {
  /** `times`: the number of hits, when an edge node has already counted them. */
  count: (hit: Hit, times?: number) => void
  /** The same by where it happened, for what edge nodes report. */
  countAtEdge: (hit: EdgeHit, times: number) => void
  refused: (refusal: RefusalRow) => void
  /** Writes what has come together. Call it every second or so, and before the end. */
  flush: () => Promise<void>
}

/** Brings what restrictions did into the database without a write for each request. */
export function createHitBuffer(db: Db, onLost: (hits: number) => void): HitBuffer {
  let counts = new Map<string, Count>()
  let edgeCounts = new Map<string, EdgeCount>()
  let refusals: RefusalRow[] = []

  function add(count: Count): void {
    const key = `${count.restrictionId} ${count.sourceIp} ${count.outcome} ${count.hour}`
    const known = counts.get(key)
    if (!known) {
      if (counts.size < maxCounts) counts.set(key, count)
      else onLost(count.count)
      return
    }
    known.count += count.count
    if (count.lastAt < known.lastAt) return
    known.lastAt = count.lastAt
    known.lastApiKeyId = count.lastApiKeyId
  }

  function addAtEdge(count: EdgeCount): void {
    const key = `${count.edgeId} ${count.sourceIp} ${count.outcome} ${count.byModule} ${count.hour}`
    const known = edgeCounts.get(key)
    if (known) {
      known.count += count.count
      known.lastAt = Math.max(known.lastAt, count.lastAt)
    } else if (edgeCounts.size < maxCounts) edgeCounts.set(key, count)
    else onLost(count.count)
  }

  return {
    count: ({ at, apiKeyId, ...hit }, times = 1) =>
      add({ ...hit, hour: hourOf(at), count: times, lastAt: at, lastApiKeyId: apiKeyId }),
    countAtEdge: ({ at, ...hit }, times) => addAtEdge({ ...hit, hour: hourOf(at), count: times, lastAt: at }),
    refused(refusal) {
      if (refusals.length < maxRefusals) refusals.push(refusal)
      else onLost(1)
    },
    async flush() {
      const [countsNow, edgeCountsNow, refusalsNow] = [counts, edgeCounts, refusals]
      counts = new Map()
      edgeCounts = new Map()
      refusals = []
      try {
        // A row that PostgreSQL refuses is dropped and counted as lost. Kept, it would hold up all others forever.
        await writeSalvaging(
          refusalsNow,
          (rows) => insertRefusals(db, rows),
          () => onLost(1),
        )
        refusalsNow.length = 0
        await writeSalvaging(
          [...countsNow.values()],
          (rows) => addCounts(db, rows),
          ({ count }) => onLost(count),
        )
        countsNow.clear()
        await writeSalvaging(
          [...edgeCountsNow.values()],
          (rows) => addEdgeCounts(db, rows),
          ({ count }) => onLost(count),
        )
      } catch (error) {
        // Kept for the next time, together with what has come since.
        for (const count of countsNow.values()) add(count)
        for (const count of edgeCountsNow.values()) addAtEdge(count)
        refusals = [...refusalsNow, ...refusals].slice(0, maxRefusals)
        throw error
      }
    },
  }
}
