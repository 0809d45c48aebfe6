import { type Db, many } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import type { WithheldRecord } from '../kernel/edge/edge_nodes.ts'
import type { OutboxRow } from '../operations/outbox.ts'
import type { LockedDatabase, Reasons } from './database.ts'

type Show = (count: number, reason: string | undefined) => void

/**
 * Records that exist but cannot be sent. They are stored before nodes learn of a later generation, so that every process
 * knows that a node at that generation still lacks them.
 */
export async function openWithheld(database: Pick<LockedDatabase, 'withheld' | 'noteWithheld'>, show: Show) {
  const stored = new Map(await database.withheld())
  /** Found by the last comparison, without a change. */
  let compared: Reasons = new Map()
  let missing: Parameters<Show> = [0, undefined]
  const showAll = () => {
    const withheld = new Map([...compared, ...stored])
    const reasons = [missing[1], describe(withheld)].filter((reason) => reason !== undefined)
    show(missing[0] + withheld.size, reasons.length > 0 ? reasons.join('. ') : undefined)
  }
  showAll()

  return {
    /** Call it before nodes learn of these changes. `withheld` has those that cannot be sent. */
    async note(changed: readonly OutboxRow[], withheld: Reasons): Promise<void> {
      const sent = changed.map(({ key }) => key).filter((key) => stored.has(key) && !withheld.has(key))
      if (sent.length === 0 && withheld.size === 0) return
      const kept = changed.filter(({ key }) => withheld.has(key))
      await database.noteWithheld(sent, kept, withheld)
      for (const key of sent) stored.delete(key)
      for (const [key, reason] of withheld) stored.set(key, reason)
      showAll()
    },
    /**
     * Stores the result of a full comparison: records that it could not compile, and those that it held back as missing.
     */
    noteComparison(withheld: Reasons, ...heldBack: Parameters<Show>): void {
      compared = withheld
      missing = heldBack
      showAll()
    },
  }
}

function describe(withheld: Reasons): string | undefined {
  const [first] = withheld
  if (!first) return undefined
  const [key, reason] = first
  const others = withheld.size === 1 ? '' : ` and ${withheld.size - 1} more`
  return `cannot send ${key}${others}; edge nodes keep what they have: ${reason}`
}

/** Records of this change that no edge node has, and why. */
export const withheldAt = (db: Db, generation: number) =>
  many<WithheldRecord>(
    db,
    sql`
    select distinct w.key, w.reason from outbox o join unsent_records w on w.key = o.key
    where o.generation = ${generation} and o.generation >= w.since and (o.cell_id is null or o.cell_id = w.cell_id)
    union
    select h.key, 'a rollout was halted: ' || coalesce(r.reason, '') from outbox o
      join held_records h on h.key = o.key join rollouts r on r.id = h.rollout_id
    where o.generation = ${generation} and o.generation >= r.since and r.reached < 0 and o.cell_id is null
    order by 1`,
  )
