import type { DbPool } from '../../db/pool.ts'
import type { Uuid } from '../../kernel/ids.ts'
import { addRuleHits, dayOf, type RuleHits, type RuleOutcome } from './rule_hits.ts'

// Limit within one interval. Hits of further rules are lost and counted as lost.
const maxPending = 100_000
/** Rows per transaction, which keeps short how long two processes block each other. */
const rowsAtOnce = 5_000

export type RuleHitBuffer = {
  count: (hit: { accountId: Uuid; ruleId: Uuid; outcome: RuleOutcome; at: number }) => void
  /** Writes the pending hits. Call it about once a second and before exit. */
  flush: () => Promise<void>
}

/** Collects which rules decided about API calls, so that calls need no write of their own. */
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
        // Retried at the next flush, together with newer hits.
        for (const hits of rows.slice(written)) add(hits)
        throw error
      }
    },
  }
}
