import { type Db, type DbPool, many, one, run } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { transaction } from '../../db/transaction.ts'
import { rfc3339 } from '../../kernel/clock.ts'
import { newUuid, type Uuid } from '../../kernel/ids.ts'

export const orderLimitCode = 'order_limit'
const hourMs = 3_600_000

/** A slot for one order within the account's hourly limit, or when the next is free. */
export type OrderSlot = { id: Uuid } | { freeAt: number }

/** The accounts share the authority's limits for the installation, so each gets its part of every hour. */
export const takeOrderSlot = (db: DbPool, accountId: Uuid, perHour: number, now: number): Promise<OrderSlot> =>
  transaction(db, async (tx) => {
    // Serializes concurrent orders of an account.
    await run(tx, sql`select from acme_turns where account_id = ${accountId} for update`)
    await run(
      tx,
      sql`delete from acme_order_slots where account_id = ${accountId} and taken_at <= ${rfc3339(now - hourMs)}`,
    )
    const taken = await many<{ taken_at: string }>(
      tx,
      sql`select taken_at from acme_order_slots where account_id = ${accountId} order by taken_at`,
    )
    if (taken.length >= perHour) return { freeAt: await nextFree(tx, accountId, taken.slice(-perHour), now) }
    const id = newUuid()
    await run(
      tx,
      sql`insert into acme_order_slots (account_id, id, taken_at) values (${accountId}, ${id}, ${rfc3339(now)})`,
    )
    return { id }
  })

/** Gives waiting orders different times, so that they do not all return for one slot. */
async function nextFree(tx: Db, accountId: Uuid, taken: readonly { taken_at: string }[], now: number): Promise<number> {
  const { waiting } = await one<{ waiting: number }>(
    tx,
    sql`
    select count(*) as waiting from acme_orders
    where account_id = ${accountId} and error_code = ${orderLimitCode} and next_attempt_at > ${rfc3339(now)}`,
  )
  const hours = 1 + Math.floor(waiting / taken.length)
  return Date.parse(taken[waiting % taken.length]?.taken_at ?? '') + hours * hourMs
}

/** Releases the slot because the order did not reach the authority. */
export const returnOrderSlot = (db: Db, accountId: Uuid, id: Uuid) =>
  run(db, sql`delete from acme_order_slots where account_id = ${accountId} and id = ${id}`)
