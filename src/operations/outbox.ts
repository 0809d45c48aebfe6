import { type Db, many, one } from '../db/pool.ts'
import { nothing, type SqlFragment, sql } from '../db/sql.ts'
import type { RecordKey } from '../distribution/records.ts'
import type { Caller } from '../identity/caller.ts'
import { rfc3339 } from '../kernel/clock.ts'
import type { Id, Uuid } from '../kernel/ids.ts'
import type { Cell } from './placement.ts'

export type OutboxRow = { generation: number; account_id: Uuid; key: RecordKey; created_at: string }
/** Properties of a change that someone requested. */
type Asked = {
  readonly operationId?: Id<'op'> | undefined
  /** Why it skips the watch. */
  readonly urgent?: string | undefined
  /** Set if the change only denies this range. */
  readonly denies?: string | undefined
}
/** Range of waves of a cell, inclusive. */
export type Waves = { readonly from: number; readonly to: number }

/**
 * Records that these keys changed, under one generation, in the transaction of the change. Without `cell`, for every
 * cell that serves the account.
 */
export async function writeOutbox(
  tx: Db,
  accountId: Uuid,
  keys: readonly RecordKey[],
  cell?: Pick<Cell, 'id'>,
  waves?: Waves,
  asked: Asked = {},
): Promise<number> {
  // Names these columns only if needed: migrations that predate them also write changes.
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

/** For records of several accounts in one cell. */
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

/** The generation up to which all transactions have ended. */
export const settledGeneration = async (db: Db): Promise<number> =>
  (await one<{ settled: number }>(db, sql`select settled_generation() as settled`)).settled

/**
 * The next changes for a wave of a cell after a generation, in order, up to the settled generation. Returns whole
 * generations, so there may be more rows than the limit; the next call continues after the last one. Two statements,
 * because the rows need a later snapshot than the bound: then all transactions that ended before it are visible.
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
 * Deletes changes that were sent and are older than the moment. Searches by primary key, since the oldest have the
 * lowest generations: a search by time read a whole day of changes every few seconds. Deletes by ctid, because a join
 * may scan the table.
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

/** The generations among these that belong to the account. */
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

/** A billion changes: more than were made since any backup that could be restored. */
const skipped = 1_000_000_000

/**
 * Advances the sequence, so that new generations exceed those that edges know from before the restore, and makes the
 * publisher send everything again under such a number.
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
