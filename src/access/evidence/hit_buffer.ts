import type { Db } from '../../db/pool.ts'
import { writeSalvaging } from '../../db/salvage.ts'
import { addCounts } from './counts.ts'
import { addEdgeCounts } from './edge_counts.ts'
import { createHitSums, type HitSums } from './hit_sums.ts'
import { insertRefusals, type RefusalRow } from './refusals.ts'

// Limits within one interval: a flood must not become a memory leak or a flood of writes. Hits beyond them are lost and
// counted as lost.
const maxCounts = 20_000
const maxRefusals = 5_000

export type HitBuffer = Pick<HitSums, 'count' | 'countAtEdge'> & {
  refused: (refusal: RefusalRow) => void
  /** Writes the pending hits. Call it about once a second and before exit. */
  flush: () => Promise<void>
}

/** Collects what restrictions did, so that requests need no write of their own. */
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
        // A row that PostgreSQL rejects is dropped and counted as lost. Keeping it would block all others forever.
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
        // Retried at the next flush, together with newer hits.
        counts.forEach(sums.add)
        edgeCounts.forEach(sums.addAtEdge)
        refusals = [...refusalsNow, ...refusals].slice(0, maxRefusals)
        throw error
      }
    },
  }
}
