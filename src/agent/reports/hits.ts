import type { EdgeHit as Hit } from '../../distribution/channels.ts'

const maxKept = 10_000

/** Accumulates refusals and warnings of this node until the control plane has received them. */
export function createHits() {
  let counts = new Map<string, Hit>()
  const add = (hit: Hit) => {
    const key = `${hit.restriction} ${hit.target} ${hit.source} ${hit.outcome} ${hit.lastAt.slice(0, 13)}`
    const known = counts.get(key)
    if (known) {
      known.count += hit.count
      known.lastAt = hit.lastAt > known.lastAt ? hit.lastAt : known.lastAt
    } else if (counts.size < maxKept) counts.set(key, { ...hit })
  }
  return {
    add,
    /** Gives out what has come together. `giveBack` what did not arrive. */
    take(): Hit[] {
      const taken = [...counts.values()]
      counts = new Map()
      return taken
    },
    giveBack: (hits: readonly Hit[]): void => hits.forEach(add),
  }
}
