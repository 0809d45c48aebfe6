import type { DbPool } from '../../db/pool.ts'
import type { Uuid } from '../../kernel/ids.ts'
import { addRuleHits, dayOf, type RuleHits, type RuleOutcome } from './rule_hits.ts'

// Beyond this many rules within one interval, hits of further ones are lost, and that is counted.
const maxPending = 100_000
/** In one transaction: rows that two processes write are held for as long as it takes. */
const rowsAtOnce = 5_000

export type RuleHitBuffer = {
  count: (hit: { accountId: Uuid; ruleId: Uuid; outcome: RuleOutcome; at: number }) => void
  /** Writes what has come together. Call it every second or so, and before the end. */
  flush: () => Promise<void>
}

/** Brings which rules decided about calls of the API into the database, without a write for each. */
export function createRuleHitBuffer(db: DbPool, onLost: (hits: number) => void): RuleHitBuffer {
  let pending = new Map<string, RuleHits>()

  function add(hits: RuleHits): void {
    const key = `${hits.ruleId} ${hits.day}`
    const known = pending.get(key)
    if (known) {
      known.allowed += hits.allowed
      known.refused += hits.refused
      known.warned += hits.warned
      known.lastAt = Math.max(known.lastAt, hits.lastAt)
    } else if (pending.size < maxPending) pending.set(key, hits)
    else onLost(hits.allowed + hits.refused + hits.warned)
  }

  return {
    count({ accountId, ruleId, outcome, at }) {
      const hits = { accountId, ruleId, day: dayOf(at), lastAt: at, allowed: 0, refused: 0, warned: 0 }
      hits[outcome] = 1
      add(hits)
    },
    async flush() {
      const rows = [...pending.values()]
      pending = new Map()
      let written = 0
      try {
        for (; written < rows.length; written += rowsAtOnce)
          await addRuleHits(db, rows.slice(written, written + rowsAtOnce))
      } catch (error) {
        // Kept for the next time, together with what has come since.
        for (const hits of rows.slice(written)) add(hits)
        throw error
      }
    },
  }
}
