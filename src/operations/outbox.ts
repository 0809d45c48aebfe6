import { type Db, many, one } from '../db/pool.ts'
import { nothing, type SqlFragment, sql } from '../db/sql.ts'
import type { RecordKey } from '../distribution/records.ts'
import type { Caller } from '../identity/caller.ts'
import { rfc3339 } from '../kernel/clock.ts'
import type { Id, Uuid } from '../kernel/ids.ts'
import type { Cell } from './placement.ts'

export type OutboxRow = { generation: number; account_id: Uuid; key: RecordKey; created_at: string }
/** What is known of a change that someone asked for. */
type Asked = {
  readonly operationId?: Id<'op'> | undefined
  /** Why it is not to wait for a watch. */
  readonly urgent?: string | undefined
  /** It does nothing but refuse this range. */
  readonly denies?: string | undefined
}
/** Waves of a cell, both included. */
export type Waves = { readonly from: number; readonly to: number }

/**
 * Notes that these records have changed, under one generation, in the transaction of the change. Without a cell it is for
 * every cell that serves the account.
 */
export async function writeOutbox(
  tx: Db,
  accountId: Uuid,
  keys: readonly RecordKey[],
  cell?: Pick<Cell, 'id'>,
  waves?: Waves,
  asked: Asked = {},
): Promise<number> {
  // The columns are not named without need: a migration that is older than them writes changes too.
  const [ofCell, cellId] = cell ? [sql`, cell_id`, sql`, ${cell.id}`] : [sql``, sql``]
  const [ofWaves, range] = inWaves(waves)
  const { operationId, urgent, denies } = asked
  const [ofOperation, operation] = operationId ? [sql`, operation_id`, sql`, ${operationId}`] : [nothing, nothing]
  const [ofUrgent, reason] = urgent === undefined ? [nothing, nothing] : [sql`, urgent`, sql`, ${urgent}`]
  const [ofDenies, denied] = denies === undefined ? [nothing, nothing] : [sql`, denies`, sql`, ${denies}::cidr`]
  const column = sql`${ofCell}${ofWaves}${ofOperation}${ofUrgent}${ofDenies}`
  const value = sql`${cellId}${range}${operation}${reason}${denied}`
  const { generation } = await one<{ generation: number }>(
    tx,
    sql`
    with next as materialized (select next_generation() as generation), written as (
      insert into outbox (generation, account_id, key${column})
      select next.generation, ${accountId}, key${value} from next, unnest(${[...new Set(keys)]}::text[]) as key
      -- Several changes of a change set may concern the same record. Together they do more than one of them.
      on conflict (generation, key) ${operationId ? sql`do update set denies = null` : sql`do nothing`}
    )
    select generation from next`,
  )
  return generation
}

const inWaves = (waves: Waves | undefined): [SqlFragment, SqlFragment] =>
  waves ? [sql`, waves`, sql`, int4range(${waves.from}::int, ${waves.to}::int, '[]')`] : [sql``, sql``]

/** The same for records of several accounts in one cell. */
export async function writeOutboxOfMany(
  tx: Db,
  cell: Cell,
  records: readonly { readonly accountId: Uuid; readonly key: RecordKey }[],
  waves?: Waves,
): Promise<number> {
  const [ofWaves, range] = inWaves(waves)
  const { generation } = await one<{ generation: number }>(
    tx,
    sql`
    with next as materialized (select next_generation() as generation), written as (
      insert into outbox (generation, account_id, key, cell_id${ofWaves})
      select next.generation, r.account_id, r.key, ${cell.id}${range} from next, unnest(
        ${records.map(({ accountId }) => accountId)}::uuid[], ${records.map(({ key }) => key)}::text[]) as r (account_id, key)
      on conflict (generation, key) do nothing
    )
    select generation from next`,
  )
  return generation
}

/** Up to where every change has ended, one way or the other. */
export const settledGeneration = async (db: Db): Promise<number> =>
  (await one<{ settled: number }>(db, sql`select settled_generation() as settled`)).settled

/**
 * The next changes for a wave of a cell after a generation, in order, and up to where everything is known. A generation comes whole, so there
 * may be more rows than the limit: the next request asks for what is after a generation. Two statements, because the
 * rows must be read by a later snapshot than the bound: transactions that ended before the bound was read are then visible.
 */
export async function readOutbox(
  db: Db,
  cell: Cell,
  after: number,
  limit: number,
  wave = 0,
): Promise<{ rows: OutboxRow[]; settled: number }> {
  const settled = await settledGeneration(db)
  if (settled <= after) return { rows: [], settled }
  const rows = await many<OutboxRow>(
    db,
    sql`
    select generation, account_id, key, created_at from outbox
    where generation > ${after} and generation <= ${settled} and (cell_id is null or cell_id = ${cell.id})
      and (waves is null or waves @> ${wave}::int)
    order by generation fetch first (${limit}) rows with ties`,
  )
  return { rows, settled }
}

/**
 * Deletes what is older than the moment and was sent. The oldest have the lowest generations, so that the primary key finds
 * them: looking for them by time read a whole day of changes, every few seconds. They are deleted by their places, because a
 * join with the table may read all of it.
 */
export async function deleteOutboxBefore(db: Db, moment: number, sent = Number.MAX_SAFE_INTEGER): Promise<void> {
  for (;;) {
    const { looked_at, deleted } = await one<{ looked_at: number; deleted: number }>(
      db,
      sql`
      with oldest as (
        select ctid, created_at from outbox where generation <= ${sent} order by generation, key limit 1000),
      deleted as (
        delete from outbox where ctid = any(array(select ctid from oldest where created_at < ${rfc3339(moment)}))
        returning 1)
      select (select count(*) from oldest) as looked_at, (select count(*) from deleted) as deleted`,
    )
    if (deleted === 0 || deleted < looked_at) return
  }
}

/** Which of these generations are changes of this account. */
export async function generationsOf(
  db: Db,
  { accountId }: Pick<Caller, 'accountId'>,
  generations: readonly number[],
): Promise<Set<number>> {
  if (generations.length === 0) return new Set()
  const rows = await many<{ generation: number }>(
    db,
    sql`select distinct generation from outbox where generation = any(${generations}) and account_id = ${accountId}`,
  )
  return new Set(rows.map(({ generation }) => generation))
}

/** A thousand million changes: more than were made since any backup that one would restore. */
const skipped = 1_000_000_000

/**
 * Takes the sequence ahead, so that what is given out from now on is higher than what edges know of a lost future, and
 * lets the publisher send everything once more under such a number.
 */
export const skipGenerations = (db: Db) =>
  one<{ before: number; after: number }>(
    db,
    sql`
    with skipped as (
      select last_value as before, setval('outbox_generations', last_value + ${skipped}) as after from outbox_generations
    ),
    updated as (update publisher_state set resend_below = skipped.after from skipped),
    later_waves as (update wave_state set resend_below = skipped.after from skipped)
    select before, after from skipped`,
  )
