import { type Db, type DbPool, many } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { recordFleetEvent } from '../../fleet/node_store.ts'
import { newId, toId, type Uuid } from '../../kernel/ids.ts'
import { recordChange } from '../../operations/audit.ts'
import { type Cell, listCells, placeAccount } from '../../operations/placement.ts'
import { CellsFault, changingCells } from './cells.ts'

type Account = { readonly id: Uuid; readonly name: string }
export type Placement = { readonly before: readonly string[]; readonly after: readonly string[] }

const namesOf = (cells: readonly Cell[]): string[] => cells.map(({ name }) => name)

class DryRun extends Error {
  readonly placement: Placement
  constructor(placement: Placement) {
    super('undoes the change')
    this.placement = placement
  }
}

/** Lets exactly these cells serve the account; every default cell when there are none. */
export async function place(
  db: DbPool,
  account: Account,
  names: readonly string[],
  isDryRun: boolean,
): Promise<Placement> {
  try {
    return await changingCells(db, async (tx) => {
      const cells = await findCells(tx, names)
      const placed = await placeAccount(tx, account.id, cells)
      const [before, after] = [namesOf(placed.before), namesOf(placed.after)]
      await refuseNamed(tx, account, lacking(before, after))
      if (isDryRun) throw new DryRun({ before, after })
      const resourceId = toId('ac', account.id)
      const detail = `${resourceId} ${cells.length > 0 ? `in ${after.join(', ')}` : 'in every default cell'}`
      await recordFleetEvent(tx, { operation: 'account_placed', detail })
      await recordChange(
        tx,
        { accountId: account.id, operation: 'server.cells.place', operationId: newId('op') },
        { resourceId, before: { cells: before }, after: { cells: after } },
      )
      return { before, after }
    })
  } catch (error) {
    if (error instanceof DryRun) return error.placement
    throw error
  }
}

/** Those of `names` that `others` does not have. */
export const lacking = (names: readonly string[], others: readonly string[]): string[] =>
  names.filter((name) => !others.includes(name))

async function findCells(tx: Db, names: readonly string[]): Promise<Cell[]> {
  const all = await listCells(tx)
  const [unknown] = lacking(names, namesOf(all))
  if (unknown !== undefined) throw new CellsFault(`there is no cell ${unknown}. There are ${namesOf(all).join(', ')}`)
  return all.filter(({ name }) => names.includes(name))
}

/** After the account was locked: a change that names a cell has either ended, or waits until this one has. */
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

/** Whether it was placed by the operator, or is in every default cell. */
export const isPlacedByName = async (db: Db, { id }: Account): Promise<boolean> =>
  (await many(db, sql`select from account_cells where account_id = ${id} limit 1`)).length > 0
