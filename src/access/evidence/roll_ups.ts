import { lockInTransaction } from '../../db/advisory_locks.ts'
import { type Db, type DbPool, run } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { transaction } from '../../db/transaction.ts'
import { rfc3339 } from '../../kernel/clock.ts'
import type { Uuid } from '../../kernel/ids.ts'

/** A table of summed counts, grouped by the columns of `key`. */
type RollUp = {
  table: string
  /** Column names and their types. */
  key: Readonly<Record<string, string>>
  /** The summed columns and their SQL expressions. */
  sums: Readonly<Record<string, string>>
}
/** A table of counts, the table of their owners, and their sums. */
type Source = { counts: string; owners: string; owner: string; byHour: RollUp; byAddress: RollUp }

const restrictions: Source = {
  counts: 'ip_restriction_counts',
  owners: 'ip_restrictions',
  owner: 'ip_restriction_id',
  byHour: {
    table: 'ip_restriction_hours',
    key: { account_id: 'uuid', hour: 'timestamptz', ip_restriction_id: 'uuid', outcome: 'text' },
    sums: { count: 'sum(count)' },
  },
  byAddress: {
    table: 'ip_restriction_addresses',
    key: { account_id: 'uuid', ip_restriction_id: 'uuid', outcome: 'text', source_ip: 'inet' },
    sums: {
      count: 'sum(count)',
      last_at: 'max(last_at)',
      last_api_key_id: '(array_agg(last_api_key_id order by last_at desc))[1]',
    },
  },
}
const edges: Source = {
  counts: 'edge_counts',
  owners: 'edges',
  owner: 'edge_id',
  byHour: {
    table: 'edge_hours',
    key: { account_id: 'uuid', hour: 'timestamptz', edge_id: 'uuid', outcome: 'text', by_module: 'boolean' },
    sums: { count: 'sum(count)', last_at: 'max(last_at)' },
  },
  byAddress: {
    table: 'edge_addresses',
    key: { account_id: 'uuid', edge_id: 'uuid', source_ip: 'inet' },
    sums: { count: 'sum(count)', last_at: 'max(last_at)' },
  },
}

/** Rows per transaction: it must stay below every time-out and below what requests waiting for a row would notice. */
const batchSize = 5_000

type Counted = Readonly<Record<string, unknown>> & { count: number }

/** Addresses are personal data: deletes those past their configured retention from the counts and the sums. */
export const deleteCountsBefore = (db: DbPool, moment: number) => deleteBefore(db, restrictions, moment)
export const deleteEdgeCountsBefore = (db: DbPool, moment: number) => deleteBefore(db, edges, moment)

async function deleteBefore(db: DbPool, { counts, byHour, byAddress }: Source, moment: number): Promise<number> {
  let total = 0
  for (;;) {
    const deleted = await transaction(db, async (tx) => {
      // Two processes that delete at the same time would wait for each other's sums in random order.
      await run(tx, sql`select ${lockInTransaction('retention')}`)
      const { rows } = await tx.query({
        text: `
          delete from ${counts} where ctid = any(array(
            select ctid from ${counts} where hour < $1 limit ${batchSize} for update skip locked))
          returning *`,
        values: [rfc3339(moment)],
      })
      // Same order as when counts are added.
      for (const rollUp of [byHour, byAddress]) await subtract(tx, rollUp, rows as Counted[])
      return rows.length
    })
    total += deleted
    if (deleted < batchSize) return total
  }
}

const same = (columns: readonly string[], one: string, other: string) =>
  columns.map((column) => `${one}.${column} = ${other}.${column}`).join(' and ')

/** Subtracts deleted counts from the sums. A sum of 0 is deleted: counts start at 1, so no counts are left. */
async function subtract(tx: Db, { table, key }: RollUp, gone: readonly Counted[]): Promise<void> {
  if (gone.length === 0) return
  const columns = Object.keys(key)
  const list = columns.join(', ')
  const arrays = Object.entries(key).map(([, type], index) => `$${index + 1}::${type}[]`)
  const values: unknown[] = columns.map((column) => gone.map((row) => row[column]))
  await tx.query({
    text: `
      with gone as (
        select ${list}, sum(count) as count
        from unnest(${arrays.join(', ')}, $${columns.length + 1}::bigint[]) as g (${list}, count)
        group by ${list}
      ), held as materialized (
        select ${columns.map((column) => `s.${column}`).join(', ')}, gone.count
        from ${table} s join gone on ${same(columns, 's', 'gone')}
        order by ${columns.map((_, index) => index + 1).join(', ')}
        for update of s
      )
      update ${table} s set count = s.count - held.count from held where ${same(columns, 's', 'held')}`,
    values: [...values, gone.map(({ count }) => count)],
  })
  await tx.query({
    text: `
      delete from ${table} s using unnest(${arrays.join(', ')}) as g (${list})
      where ${same(columns, 's', 'g')} and s.count <= 0`,
    values,
  })
}

type Owner = { account_id: Uuid; id: Uuid }

/**
 * Recomputes sums that differ from their counts since a moment, because an older version counted without them or they
 * were never summed. Each owner gets its own transaction. Resolves to the number repaired.
 */
export async function repairRollUps(db: DbPool, since?: number): Promise<number> {
  let repaired = 0
  for (const source of [restrictions, edges])
    for (const owner of await findDiffering(db, source, since)) {
      await transaction(db, (tx) => rebuild(tx, source, owner))
      repaired++
    }
  return repaired
}

async function findDiffering(
  db: Db,
  { counts, owner, byHour: { table, key } }: Source,
  since: number | undefined,
): Promise<Owner[]> {
  const list = Object.keys(key).join(', ')
  const recent = since === undefined ? '' : 'where hour >= $1'
  const { rows } = await db.query({
    text: `
      select account_id, ${owner} as id
      from (select ${list}, sum(count) as counted from ${counts} ${recent} group by ${list}) c
        full join (select ${list}, count as summed from ${table} ${recent}) s using (${list})
      where counted is distinct from summed
      group by 1, 2 order by 1, 2`,
    values: since === undefined ? [] : [rfc3339(since)],
  })
  return rows as Owner[]
}

/** Writers of counts lock the owner too, so they wait until this ends. */
async function rebuild(tx: Db, { counts, owners, owner, byHour, byAddress }: Source, { account_id, id }: Owner) {
  const values = [account_id, id]
  await tx.query({ text: `select from ${owners} where account_id = $1 and id = $2 for update`, values })
  for (const { table, key, sums } of [byHour, byAddress]) {
    const list = Object.keys(key).join(', ')
    await tx.query({ text: `delete from ${table} where account_id = $1 and ${owner} = $2`, values })
    await tx.query({
      text: `
        insert into ${table} (${list}, ${Object.keys(sums).join(', ')})
        select ${list}, ${Object.values(sums).join(', ')} from ${counts} where account_id = $1 and ${owner} = $2
        group by ${list}`,
      values,
    })
  }
}
