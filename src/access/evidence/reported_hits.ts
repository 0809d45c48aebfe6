import { type Db, type DbPool, run } from '../../db/pool.ts'
import { type SqlFragment, sql } from '../../db/sql.ts'
import { transaction } from '../../db/transaction.ts'
import { rfc3339 } from '../../kernel/clock.ts'
import { addCounts } from './counts.ts'
import { addEdgeCounts } from './edge_counts.ts'
import type { HitSums } from './hit_sums.ts'
import { takeBatch } from './reported_batches.ts'
import { dayMs, daysKept } from './rule_hits.ts'

type ReportedBatch = { node: string; sender: string; batch: number }
const [ofRestrictions, ofEdges] = [sql`restriction_hit_batches`, sql`edge_hit_batches`]

/**
 * Adds the hits that a node counted, once per batch. Uses two transactions: counts lock their restriction or edge, and
 * one transaction that locks both could deadlock with a change set that deletes both in its own order.
 */
export async function addReportedHits(pool: DbPool, batch: ReportedBatch, sums: HitSums, now: number): Promise<void> {
  const once = (table: SqlFragment, add: (tx: Db) => Promise<void>) =>
    transaction(pool, async (tx) => {
      if (await takeBatch(tx, table, batch, now)) await add(tx)
    })
  await once(ofRestrictions, (tx) => addCounts(tx, sums.ofRestrictions()))
  await once(ofEdges, (tx) => addEdgeCounts(tx, sums.ofEdges()))
}

/** Forgets agents that have been silent for longer than nodes keep hits. */
export async function deleteOldHitBatches(db: Db, now: number): Promise<void> {
  for (const table of [ofRestrictions, ofEdges])
    await run(db, sql`delete from ${table} where received_at < ${rfc3339(now - daysKept * dayMs)}`)
}
