import { deleteInBatches } from '../../db/batches.ts'
import { type Db, type DbPool, run } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { transaction } from '../../db/transaction.ts'
import { rfc3339 } from '../../kernel/clock.ts'
import type { Uuid } from '../../kernel/ids.ts'
import { takeBatch } from './reported_batches.ts'

/** What happened to the address. `warned`: the restriction is not enforced. */
export const ruleOutcomes = ['allowed', 'refused', 'warned'] as const
export type RuleOutcome = (typeof ruleOutcomes)[number]

/** Hits of one rule on one day. */
export type RuleHits = {
  accountId: Uuid
  ruleId: Uuid
  /** Start of the day (UTC) in milliseconds. */
  day: number
  lastAt: number
} & Record<RuleOutcome, number>

export const dayMs = 24 * 60 * 60 * 1_000
export const dayOf = (at: number): number => at - (at % dayMs)
/** The API shows this many days. The total and the time of the last hit stay as long as the rule. */
export const daysKept = 31

/** Adds all hits or none. Skips deleted rules. */
export const addRuleHits = (pool: DbPool, hits: readonly RuleHits[]): Promise<void> =>
  transaction(pool, (tx) => writeRuleHits(tx, hits))

export type RuleHitBatch = { node: string; sender: Uuid; batch: number; hits: readonly RuleHits[] }

/** Adds the hits that a node counted, once per batch. Resolves to false if the batch was taken before. */
export const addReportedRuleHits = (
  pool: DbPool,
  { node, sender, batch, hits }: RuleHitBatch,
  now: number,
): Promise<boolean> =>
  transaction(pool, async (tx) => {
    if (!(await takeBatch(tx, sql`ip_rule_hit_batches`, { node, sender, batch }, now))) return false
    await writeRuleHits(tx, hits)
    return true
  })

async function writeRuleHits(tx: Db, hits: readonly RuleHits[]): Promise<void> {
  // Sorted: two processes that add to the same rows must lock them in the same order.
  const counted = sql`
    select r.account_id, r.id, s.day, s.allowed, s.refused, s.warned, s.last_at from unnest(
        ${hits.map(({ accountId }) => accountId)}::uuid[], ${hits.map(({ ruleId }) => ruleId)}::uuid[],
        ${hits.map(({ day }) => rfc3339(day).slice(0, 10))}::date[],
        ${hits.map(({ allowed }) => allowed)}::bigint[], ${hits.map(({ refused }) => refused)}::bigint[],
        ${hits.map(({ warned }) => warned)}::bigint[], ${hits.map(({ lastAt }) => rfc3339(lastAt))}::timestamptz[]
      ) as s (account_id, id, day, allowed, refused, warned, last_at)
      join ip_policy_rules r on r.account_id = s.account_id and r.id = s.id`
  await run(
    tx,
    sql`
    insert into ip_rule_hits as h (account_id, ip_policy_rule_id, allowed, refused, warned, last_at)
    select account_id, id, sum(allowed), sum(refused), sum(warned), max(last_at) from (${counted}) counted
    group by 1, 2 order by 1, 2
    on conflict (account_id, ip_policy_rule_id) do update set
      allowed = h.allowed + excluded.allowed, refused = h.refused + excluded.refused,
      warned = h.warned + excluded.warned, last_at = greatest(h.last_at, excluded.last_at)`,
  )
  await run(
    tx,
    sql`
    insert into ip_rule_hit_days as d (account_id, ip_policy_rule_id, day, hits)
    select account_id, id, day, sum(allowed + refused + warned) from (${counted}) counted
    group by 1, 2, 3 order by 1, 2, 3
    on conflict (account_id, ip_policy_rule_id, day) do update set hits = d.hits + excluded.hits`,
  )
}

/** Deletes days past their retention, counts of deleted rules, and agents silent for that long. */
export async function deleteOldRuleHits(db: Db, now: number): Promise<void> {
  await deleteInBatches(db, sql`ip_rule_hit_days`, sql`day < ${rfc3339(now - daysKept * dayMs).slice(0, 10)}::date`)
  for (const table of [sql`ip_rule_hits`, sql`ip_rule_hit_days`])
    await deleteInBatches(
      db,
      table,
      sql`not exists (select from ip_policy_rules r
        where r.account_id = ${table}.account_id and r.id = ${table}.ip_policy_rule_id)`,
    )
  await run(db, sql`delete from ip_rule_hit_batches where received_at < ${rfc3339(now - daysKept * dayMs)}`)
}
