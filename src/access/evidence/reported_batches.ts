import { type Db, maybeOne, run } from '../../db/pool.ts'
import { type SqlFragment, sql } from '../../db/sql.ts'
import { rfc3339 } from '../../kernel/clock.ts'

/** Senders remembered per node. An agent that starts without its own notes is a new sender. */
const sendersKept = 10

/**
 * Records a batch of a node's counts, so that it counts once even if the node resends it: the batches of a sender have
 * ascending numbers. Resolves to false if the batch was taken before.
 */
export async function takeBatch(
  tx: Db,
  table: SqlFragment,
  { node, sender, batch }: { node: string; sender: string; batch: number },
  now: number,
): Promise<boolean> {
  const added = await maybeOne<{ is_new: boolean }>(
    tx,
    sql`
    insert into ${table} as b (node, sender, batch, received_at)
    values (${node}, ${sender}, ${batch}, ${rfc3339(now)})
    on conflict (node, sender) do update set batch = excluded.batch, received_at = excluded.received_at
      where b.batch < excluded.batch
    returning (xmax = 0) as is_new`,
  )
  // Bounds the table: a compromised node can invent senders.
  if (added?.is_new)
    await run(
      tx,
      sql`
      delete from ${table} where node = ${node} and sender <> ${sender} and sender not in (
        select sender from ${table} where node = ${node} order by received_at desc limit ${sendersKept})`,
    )
  return added !== undefined
}
