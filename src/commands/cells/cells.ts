import { lockInTransaction } from '../../db/advisory_locks.ts'
import { violates } from '../../db/failures.ts'
import { type Db, type DbPool, later, many, maybeOne, run } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { transaction } from '../../db/transaction.ts'
import { closeCellAccount } from '../../fleet/cell_accounts.ts'
import { recordFleetEvent } from '../../fleet/node_store.ts'
import { newId, toId, type Uuid } from '../../kernel/ids.ts'
import { recordChange } from '../../operations/audit.ts'
import { type Cell, defaultCell } from '../../operations/placement.ts'
import { publishersByCell } from '../../publisher/lock.ts'
import { shownThresholds, type Thresholds, thresholdColumns } from './thresholds.ts'

/** Why cells cannot be changed, for the operator. Throwing it rolls the change back. */
export class CellsFault extends Error {
  override readonly name = 'CellsFault'
}

/** Serializes changes of cells and placements: both together decide which accounts a default cell serves. */
export const changingCells = <Result>(db: DbPool, change: (tx: Db) => Promise<Result>): Promise<Result> =>
  transaction(db, async (tx) => {
    await later(tx, sql`select ${lockInTransaction('placement')}`)
    return change(tx)
  })

type CellInUse = Thresholds & {
  id: number
  name: string
  default: boolean
  leaf_servers: string[] | null
  nodes: number
  accounts: number
  placed_accounts: number
}

/** Includes the process that publishes to each cell, as `host:pid`. */
export async function listCellsInUse(db: Db): Promise<object[]> {
  const [cells, publishers] = [await countUses(db), await publishersByCell(db)]
  return cells.map(
    ({ id, name, default: isDefault, leaf_servers, nodes, accounts, placed_accounts, ...thresholds }) => ({
      ...{ name, default: isDefault, nodes, accounts, placed_accounts, publisher: publishers.get(id) ?? null },
      ...(leaf_servers && { leaf_servers }),
      ...shownThresholds(thresholds),
    }),
  )
}

const countUses = (db: Db) =>
  many<CellInUse>(
    db,
    sql`
    select c.id, c.name, c.is_default as default, ${thresholdColumns},
      (select a.servers from cell_accounts a where a.cell_id = c.id) as leaf_servers, n.nodes,
      p.placed + case when c.is_default then (
        select count(*) from accounts a where not exists (select from account_cells o where o.account_id = a.id)) else 0 end
        as accounts,
      p.placed as placed_accounts
    from cells c,
      lateral (select count(*) as placed from account_cells p where p.cell_id = c.id) p,
      lateral (
        select count(*) as nodes from (
          select name from fleet_nodes f where f.cell_id = c.id and f.revoked_at is null
          union
          -- With a password instead of having joined.
          select name from edge_nodes e where e.cell_id = c.id and e.last_seen_at > now() - interval '1 day'
            and not exists (select from fleet_nodes f where f.name = e.name)) nodes) n
    order by c.id`,
  )

/**
 * Resolves to the number of accounts that a default cell serves from now on. Without `confirmed`, a default cell may
 * serve none.
 */
export async function createCell(
  db: DbPool,
  { name, isDefault, confirmed }: { name: string; isDefault: boolean; confirmed: boolean },
): Promise<number> {
  try {
    return await changingCells(db, async (tx) => {
      const before = await defaultCellNames(tx)
      await run(
        tx,
        sql`
        with cell as (insert into cells (name, is_default) values (${name}, ${isDefault}) returning id),
        -- Begins with the time: nodes that were revoked in a deleted cell of this name know that cell's keys.
        delivery as (insert into delivery_key (cell_id, epoch) select id, extract(epoch from now())::bigint from cell)
        -- The first comparison of the new bucket with the database brings what was changed before.
        insert into publisher_state (cell_id, cursor) select id, settled_generation() from cell`,
      )
      await recordFleetEvent(tx, { operation: 'cell_created', detail: name + (isDefault ? ', default' : '') })
      if (!isDefault) return 0
      const moved = await noteDefaultCells(tx, 'server.cells.create', before, [...before, name])
      if (moved > 0 && !confirmed)
        throw new CellsFault(
          `${name} would serve ${accounts(moved)} that ${moved === 1 ? 'is' : 'are'} placed nowhere, and get ${moved === 1 ? 'its' : 'their'} records. Add --yes to create it`,
        )
      return moved
    })
  } catch (error) {
    if (!violates(error, 'cells_name')) throw error
    throw new CellsFault(`there is a cell ${name} already`)
  }
}

const accounts = (count: number): string => `${count} ${count === 1 ? 'account' : 'accounts'}`

const defaultCellNames = async (tx: Db): Promise<string[]> =>
  (await many<Cell>(tx, sql`select id, name from cells where is_default order by id`)).map(({ name }) => name)

/** Writes an audit event for each account without a placement. Resolves to their number. */
async function noteDefaultCells(tx: Db, operation: string, before: string[], after: string[]): Promise<number> {
  const unplaced = await many<{ id: Uuid }>(
    tx,
    sql`select id from accounts a where not exists (select from account_cells p where p.account_id = a.id) order by id`,
  )
  const operationId = newId('op')
  for (const { id } of unplaced)
    await recordChange(
      tx,
      { accountId: id, operation, operationId },
      { resourceId: toId('ac', id), before: { cells: before }, after: { cells: after } },
    )
  return unplaced.length
}

/** Deletes a cell only if no node is in it, no account is placed in it and no edge names it. */
export const deleteCell = (db: DbPool, name: string): Promise<void> =>
  changingCells(db, async (tx) => {
    if (name === defaultCell.name) throw new CellsFault(`${name} is the cell of every installation and stays`)
    // Before the cell is locked: a joining node holds its token, and then waits for the cell.
    await run(tx, sql`delete from join_tokens where cell_id = (select id from cells where name = ${name})`)
    const cell = await maybeOne<Cell & { is_default: boolean }>(
      tx,
      sql`select id, name, is_default from cells where name = ${name} for update`,
    )
    if (!cell) throw new CellsFault(`there is no cell ${name}`)
    await refuseInUse(tx, cell)
    const before = await defaultCellNames(tx)
    for (const table of [
      sql`unsent_records`,
      sql`edge_node_keys`,
      sql`publisher_state`,
      sql`wave_state`,
      sql`rollouts`,
      sql`delivery_key`,
    ])
      await later(tx, sql`delete from ${table} where cell_id = ${cell.id}`)
    // NATS must still learn of these revocations, even if their cell is gone.
    await later(tx, sql`update fleet_nodes set cell_id = ${defaultCell.id} where cell_id = ${cell.id}`)
    await later(tx, sql`delete from edge_nodes where cell_id = ${cell.id}`)
    await closeCellAccount(tx, cell)
    await run(tx, sql`delete from cells where id = ${cell.id}`)
    await recordFleetEvent(tx, { operation: 'cell_deleted', detail: name })
    if (cell.is_default)
      await noteDefaultCells(
        tx,
        'server.cells.delete',
        before,
        before.filter((each) => each !== name),
      )
  })

async function refuseInUse(tx: Db, { id, name }: Cell): Promise<void> {
  const uses = await many<{ use: string }>(
    tx,
    sql`
    (select 'the node ' || name as use from fleet_nodes where cell_id = ${id} and revoked_at is null order by name limit 5)
    union all
    (select 'the account ' || a.name from account_cells p join accounts a on a.id = p.account_id
     where p.cell_id = ${id} order by a.name limit 5)
    union all
    (select distinct 'an edge of the account ' || a.name from edges e join accounts a on a.id = e.account_id
     where ${name} = any(e.cells) order by 1 limit 5)`,
  )
  if (uses.length > 0)
    throw new CellsFault(`${name} is in use by ${uses.map(({ use }) => use).join(', ')}. Revoke or move these first`)
}
