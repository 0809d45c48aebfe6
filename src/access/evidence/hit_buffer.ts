import type { Db } from '../../db/pool.ts'
import { writeSalvaging } from '../../db/salvage.ts'
import { addCounts } from './counts.ts'
import { addEdgeCounts } from './edge_counts.ts'
import { createHitSums, type HitSums } from './hit_sums.ts'
import { insertRefusals, type RefusalRow } from './refusals.ts'

// Beyond this many within one interval, counts of further addresses and details of further refusals are lost, and that is
// counted: a flood must not become a memory leak or a flood of writes.
const maxCounts = 20_000
const maxRefusals = 5_000

export type HitBuffer = Pick<HitSums, 'count' | 'countAtEdge'> & {
  refused: (refusal: RefusalRow) => void
  /** Writes what has come together. Call it every second or so, and before the end. */
  flush: () => Promise<void>
}

/** Brings what restrictions did into the database without a write for each request. */
export function createHitBuffer(db: Db, onLost: (hits: number) => void): HitBuffer {
  let sums = createHitSums(maxCounts, onLost)
  let refusals: RefusalRow[] = []

  return {
    count: (...hit) => sums.count(...hit),
    countAtEdge: (...hit) => sums.countAtEdge(...hit),
    refused(refusal) {
      if (refusals.length < maxRefusals) refusals.push(refusal)
      else onLost(1)
    },
    async flush() {
      let [counts, edgeCounts, refusalsNow] = [sums.ofRestrictions(), sums.ofEdges(), refusals]
      sums = createHitSums(maxCounts, onLost)
      refusals = []
      try {
        // A row that PostgreSQL refuses is dropped and counted as lost. Kept, it would hold up all others forever.
        await writeSalvaging(
          refusalsNow,
          (rows) => insertRefusals(db, rows),
          () => onLost(1),
        )
        refusalsNow = []
        await writeSalvaging(
          counts,
          (rows) => addCounts(db, rows),
          ({ count }) => onLost(count),
        )
        counts = []
        await writeSalvaging(
          edgeCounts,
          (rows) => addEdgeCounts(db, rows),
          ({ count }) => onLost(count),
        )
        edgeCounts = []
      } catch (error) {
        // Kept for the next time, together with what has come since.
        counts.forEach(sums.add)
        edgeCounts.forEach(sums.addAtEdge)
        refusals = [...refusalsNow, ...refusals].slice(0, maxRefusals)
        throw error
      }
    },
  }
}
