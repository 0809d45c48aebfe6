import { deleteInBatches } from '../../db/batches.ts'
import { type Db, later, one } from '../../db/pool.ts'
import { type SqlFragment, sql } from '../../db/sql.ts'
import { rfc3339 } from '../../kernel/clock.ts'
import type { Id, Uuid } from '../../kernel/ids.ts'

/** The change that the rules belong to, identified as in its audit event. */
export type RuleSetChange = { accountId: Uuid; operationId: Id<'op'> }
/** `replaced`: the same range came with another expiry or description. `added` includes the replacement. */
export type RuleSetPart = 'removed' | 'replaced' | 'added'

/** About 10 MB. An account that replaces whole sets all day keeps only its latest changes. */
const rulesKeptPerAccount = 500_000
/** Fixed cost of a change, which also bounds the number of changes without rules. */
const perChange = 100

/** Builds an `insert` of one part from rows with `cidr`, `action` and `expires_at`. */
export const noteRules = (
  { accountId, operationId }: RuleSetChange,
  policy: Uuid,
  part: RuleSetPart,
  from: SqlFragment,
) => sql`
  insert into rule_set_changes (account_id, operation_id, ip_policy_id, part, cidrs, allows, expiries, rules)
  select ${accountId}, ${operationId}, ${policy}, ${part}, coalesce(array_agg(cidr), '{}'), coalesce(array_agg(action = 'allow'), '{}'),
    coalesce(array_agg(expires_at), '{}'), count(*)
  from ${from}`

/** Call it after the last part. Deletes whole changes, because half of one would show rule sets that never existed. */
export const forgetOldRuleSets = (tx: Db, { accountId }: RuleSetChange): Promise<void> =>
  later(
    tx,
    sql`
    delete from rule_set_changes where account_id = ${accountId} and operation_id in (
      select operation_id from (
        select operation_id, sum(sum(rules) + ${perChange}) over (order by max(created_at) desc, operation_id desc) as kept
        from rule_set_changes where account_id = ${accountId} group by operation_id) changes
      where kept > ${rulesKeptPerAccount})`,
  )

/** Number of rules removed with a rule set or a policy. Undefined if the record has been deleted. */
export const rulesRemovedBy = async (
  db: Db,
  { accountId, operationId }: RuleSetChange,
  policy: Uuid,
): Promise<number | undefined> =>
  (
    await one<{ removed: number | null }>(
      db,
      sql`
      select sum(rules)::int as removed from rule_set_changes
      where account_id = ${accountId} and operation_id = ${operationId} and part = 'removed'
        and coalesce(ip_policy_id, ${policy}) = ${policy}`,
    )
  ).removed ?? undefined

export const deleteRuleSetChangesBefore = (db: Db, moment: number): Promise<number> =>
  deleteInBatches(db, sql`rule_set_changes`, sql`created_at < ${rfc3339(moment)}`)
