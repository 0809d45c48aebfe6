import { type Db, many, one, run } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import type { RecordKey } from '../../distribution/records.ts'
import type { Uuid } from '../../kernel/ids.ts'

export type OutboxRow = { generation: number; account_id: Uuid; key: RecordKey; created_at: string }

/** Notes that these records have changed, under one generation, in the transaction of the change. */
export async function writeOutbox(tx: Db, accountId: Uuid, keys: readonly RecordKey[]): Promise<number> {
  const { generation } = await one<{ generation: number }>(tx, sql`select next_generation() as generation`)
  await run(
    tx,
    sql`
    insert into outbox (generation, account_id, key)
    select ${generation}, ${accountId}, key from unnest(${[...new Set(keys)]}::text[]) as key`,
  )
  return generation
}

/**
 * The next changes after a generation, in order, and up to where everything is known. Whole generations only: when
 * there are more than `limit` rows, those of the last generation come along, however many they are. Two statements, because the rows
 * must be read by a later snapshot than the bound: whoever had ended before the bound was read is then visible.
 */
export async function readOutbox(
  db: Db,
  after: number,
  limit: number,
): Promise<{ rows: OutboxRow[]; settled: number }> {
  const { settled } = await one<{ settled: number }>(db, sql`select settled_generation() as settled`)
  const rows = await many<OutboxRow>(
    db,
    sql`
    select generation, account_id, key, created_at from outbox
    where generation > ${after} and generation <= ${settled}
    order by generation fetch first (${limit}) rows with ties`,
  )
  return { rows, settled }
}
