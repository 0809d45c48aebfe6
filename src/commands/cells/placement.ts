import { type Db, type DbPool, many } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { recordFleetEvent } from '../../fleet/node_store.ts'
import { newId, toId, type Uuid } from '../../kernel/ids.ts'
import { isUnusual, type UnusualAbove } from '../../kernel/unusual_change.ts'
import { recordChange } from '../../operations/audit.ts'
import { type Cell, listCells, placeAccount } from '../../operations/placement.ts'
import { countEdgeEntries } from '../../operations/unusual_changes.ts'
import { CellsFault, changingCells } from './cells.ts'

type Account = { readonly id: Uuid; readonly name: string }
export type Placement = {
  readonly before: readonly string[]
  readonly after: readonly string[]
  /** Set if so many edges, routes and backends leave the cell's nodes that the change needs a confirmation. */
  readonly unusual: number | undefined
}

const namesOf = (cells: readonly Cell[]): string[] => cells.map(({ name }) => name)

class DryRun extends Error {
  readonly placement: Placement
  constructor(placement: Placement) {
    super('undoes the change')
    this.placement = placement
  }
}

/**
 * Places the account in exactly these cells, or in every default cell if there are none. Without `unusualAbove`, the
 * change counts as confirmed.
 */
export async function place(
  db: DbPool,
  account: Account,
  names: readonly string[],
  isDryRun: boolean,
  unusualAbove?: UnusualAbove,
): Promise<Placement> {
  try {
    return await changingCells(db, async (tx) => {
      const cells = await findCells(tx, names)
      const placed = await placeAccount(tx, account.id, cells)
      const [before, after] = [namesOf(placed.before), namesOf(placed.after)]
      const removed = lacking(before, after)
      await refuseNamed(tx, account, removed)
      const unusual = removed.length > 0 && unusualAbove ? await unusuallyMany(tx, account, unusualAbove) : undefined
      if (isDryRun) throw new DryRun({ before, after, unusual })
      if (unusual !== undefined)
        throw new CellsFault(
          `all ${unusual} edges, routes and backends of ${account.name} would be removed from the nodes of ${removed.join(', ')}. Add --yes if that is what you want`,
        )
      const resourceId = toId('ac', account.id)
      const detail = `${resourceId} ${cells.length > 0 ? `in ${after.join(', ')}` : 'in every default cell'}`
      await recordFleetEvent(tx, { operation: 'account_placed', detail })
      await recordChange(
        tx,
        { accountId: account.id, operation: 'server.cells.place', operationId: newId('op') },
        { resourceId, before: { cells: before }, after: { cells: after } },
      )
      return { before, after, unusual }
    })
  } catch (error) {
    if (error instanceof DryRun) return error.placement
    throw error
  }
}

async function unusuallyMany(tx: Db, { id }: Account, above: UnusualAbove): Promise<number | undefined> {
  const entries = await countEdgeEntries(tx, id)
  return isUnusual({ before: entries, added: 0, removed: entries }, above) ? entries : undefined
}

export const lacking = (names: readonly string[], others: readonly string[]): string[] =>
  names.filter((name) => !others.includes(name))

async function findCells(tx: Db, names: readonly string[]): Promise<Cell[]> {
  const all = await listCells(tx)
  const [unknown] = lacking(names, namesOf(all))
  if (unknown !== undefined) throw new CellsFault(`there is no cell ${unknown}. There are ${namesOf(all).join(', ')}`)
  return all.filter(({ name }) => names.includes(name))
}

/** Runs after the account is locked: a change that names a cell has either ended, or waits for this one. */
async function refuseNamed(tx: Db, account: Account, removed: readonly string[]): Promise<void> {
  const naming = (await edgesNamingCells(tx, account)).filter(({ cells }) =>
    cells.some((name) => removed.includes(name)),
  )
  if (naming.length === 0) return
  const edges = naming.slice(0, 5).map(({ id, cells }) => `${id} (${cells.join(', ')})`)
  throw new CellsFault(
    `${account.name} cannot be removed from ${removed.join(', ')}: ${naming.length} of its edges ${naming.length === 1 ? 'names' : 'name'} a cell that would no longer serve it: ${edges.join(', ')}. Change their cells first`,
  )
}

export async function edgesNamingCells(db: Db, { id }: Account): Promise<{ id: string; cells: string[] }[]> {
  const rows = await many<{ id: Uuid; kind: 'tcp' | 'https'; cells: string[] }>(
    db,
    sql`
    select id, kind, cells from edges where account_id = ${id} and parent_id is null and cells is not null order by id`,
  )
  return rows.map((row) => ({ id: toId(row.kind === 'tcp' ? 'edgtcp' : 'edghts', row.id), cells: row.cells }))
}

/** True if the operator has placed the account; false if it is in every default cell. */
export const isPlacedByName = async (db: Db, { id }: Account): Promise<boolean> =>
  (await many(db, sql`select from account_cells where account_id = ${id} limit 1`)).length > 0
