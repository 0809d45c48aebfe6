import { type Db, many, run } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import type { RecordKey } from '../../distribution/records.ts'
import { toId, type Uuid } from '../../kernel/ids.ts'
import { writeOutbox } from '../../operations/outbox.ts'

type Which = { readonly account_id: Uuid; readonly domain_id: Uuid }

export const planOrder = (tx: Db, accountId: Uuid, domainId: Uuid) =>
  run(
    tx,
    sql`
    insert into acme_orders as o (account_id, domain_id) values (${accountId}, ${domainId})
    on conflict (account_id, domain_id) do update
    set next_attempt_at = greatest(now(), o.held_back_until), plans = o.plans + 1`,
  )

/** Schedules orders for these domains if their certificates are managed. */
export const replanOrders = (tx: Db, accountId: Uuid, domains: readonly string[]) =>
  run(
    tx,
    sql`
    update acme_orders o set next_attempt_at = greatest(now(), o.held_back_until), plans = o.plans + 1
    from reserved_domains d
    where d.account_id = ${accountId} and d.domain = any(${domains}) and o.account_id = d.account_id and o.domain_id = d.id`,
  )

/** Also removes its challenges from nodes. */
export async function dropOrder(tx: Db, which: Which): Promise<void> {
  await removeChallenges(tx, which)
  const { account_id, domain_id } = which
  await run(tx, sql`delete from acme_orders where account_id = ${account_id} and domain_id = ${domain_id}`)
}

/** Includes those of a crashed attempt. */
export async function removeChallenges(tx: Db, { account_id, domain_id }: Which): Promise<void> {
  const gone = await many<{ id: Uuid }>(
    tx,
    sql`delete from acme_challenges where account_id = ${account_id} and domain_id = ${domain_id} returning id`,
  )
  const keys = gone.map(({ id }): RecordKey => `challenge.${toId('chl', id)}`)
  if (keys.length > 0) await writeOutbox(tx, account_id, keys)
}
