import { hourOf } from '../../kernel/clock.ts'
import type { Uuid } from '../../kernel/ids.ts'
import type { Count, Outcome } from './counts.ts'
import type { EdgeCount } from './edge_counts.ts'

export type Hit = {
  restrictionId: Uuid
  sourceIp: string
  outcome: Outcome
  apiKeyId: string | null
  at: number
}
export type EdgeHit = Omit<EdgeCount, 'hour' | 'count' | 'lastAt'> & { at: number }
export type HitSums = ReturnType<typeof createHitSums>

/** Sums hits by restriction or edge, address, outcome and hour. `onLost` receives the hits that exceed the limit. */
export function createHitSums(most: number, onLost: (hits: number) => void) {
  const ofRestrictions = new Map<string, Count>()
  const ofEdges = new Map<string, EdgeCount>()

  function add(count: Count): void {
    const key = `${count.restrictionId} ${count.sourceIp} ${count.outcome} ${count.hour}`
    const known = ofRestrictions.get(key)
    if (!known) {
      if (ofRestrictions.size < most) ofRestrictions.set(key, count)
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
    const known = ofEdges.get(key)
    if (known) {
      known.count += count.count
      known.lastAt = Math.max(known.lastAt, count.lastAt)
    } else if (ofEdges.size < most) ofEdges.set(key, count)
    else onLost(count.count)
  }

  return {
    add,
    addAtEdge,
    /** `times`: number of hits, for edge nodes that have already summed them. */
    count: ({ at, apiKeyId, ...hit }: Hit, times = 1): void =>
      add({ ...hit, hour: hourOf(at), count: times, lastAt: at, lastApiKeyId: apiKeyId }),
    /** For hits that edge nodes report by edge or route. */
    countAtEdge: ({ at, ...hit }: EdgeHit, times: number): void =>
      addAtEdge({ ...hit, hour: hourOf(at), count: times, lastAt: at }),
    ofRestrictions: (): Count[] => [...ofRestrictions.values()],
    ofEdges: (): EdgeCount[] => [...ofEdges.values()],
  }
}
