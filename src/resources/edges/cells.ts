import { type Db, later, many } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import type { Caller } from '../../identity/caller.ts'
import { invalidField } from '../../kernel/errors.ts'
import { cellsOf } from '../../operations/placement.ts'

type Names = readonly string[] | null | undefined

export function checkCells({ cells }: { cells?: Names }): void {
  const twice = cells?.findIndex((name, index) => cells.indexOf(name) !== index) ?? -1
  if (twice >= 0) throw invalidField(`cells[${twice}]`, `repeats an earlier entry (${cells?.[twice]})`)
}

/**
 * Refuses cells that do not serve the account, without revealing whether they exist. Until the transaction ends, the
 * operator can neither delete the others nor remove the account from them.
 */
export async function holdCells(tx: Db, { accountId }: Pick<Caller, 'accountId'>, names: Names): Promise<void> {
  if (!names) return
  await later(tx, sql`select from accounts where id = ${accountId} for share`)
  const rows = await many<{ name: string }>(
    tx,
    sql`
    select name from cells where name = any(${names}::text[]) and is_placed(${accountId}, id) order by id for key share`,
  )
  const held = new Set(rows.map(({ name }) => name))
  const wrong = names.findIndex((name) => !held.has(name))
  if (wrong < 0) return
  const own = (await cellsOf(tx, accountId)).map(({ name }) => name)
  throw invalidField(`cells[${wrong}]`, `must be a cell of this account: ${own.join(', ')}`)
}
