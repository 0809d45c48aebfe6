import { type DbPool, many } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { transaction } from '../../db/transaction.ts'
import { rfc3339 } from '../../kernel/clock.ts'
import { toId, type Uuid } from '../../kernel/ids.ts'
import { writeOutbox } from '../../operations/outbox.ts'
import { type Cell, isPlaced } from '../../operations/placement.ts'

/** An expiring rule changes its policy without a request, so it is published like any other change. */
export async function noteExpiredRules(pool: DbPool, cell: Cell, since: number, now: number): Promise<void> {
  const expired = await many<{ account_id: Uuid; ip_policy_id: Uuid }>(
    pool,
    sql`
    select distinct account_id, ip_policy_id from ip_policy_rules
    where expires_at > ${rfc3339(since)} and expires_at <= ${rfc3339(now)} and ${isPlaced(sql`account_id`, cell)}`,
  )
  for (const [accountId, policies] of Map.groupBy(expired, ({ account_id }) => account_id)) {
    await transaction(pool, (tx) =>
      writeOutbox(
        tx,
        accountId,
        policies.map(({ ip_policy_id }) => `policy.${toId('ipp', ip_policy_id)}` as const),
        cell,
      ),
    )
  }
}
