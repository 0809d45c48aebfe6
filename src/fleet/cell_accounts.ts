import { type Db, many, maybeOne, one } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import type { Cell } from '../operations/placement.ts'
import { newNatsKey } from './nats_jwt.ts'

/** An account without a cell is closed, because the credentials of its links never expire. */
export const cellAccounts = (db: Db): Promise<{ account: string; cell: string | null }[]> =>
  many(
    db,
    sql`select a.account, c.name as cell from cell_accounts a left join cells c on c.id = a.cell_id order by a.account`,
  )

/** Resolves to the account of the cell. The cell's nodes reach NATS at these servers from now on. */
export async function openCellAccount(tx: Db, { id }: Cell, servers: readonly string[]): Promise<string> {
  // The key is discarded, like that of a node's account: another key signs.
  const { publicKey } = newNatsKey('account')
  const row = await one<{ account: string }>(
    tx,
    sql`
    insert into cell_accounts (account, cell_id, servers) values (${publicKey}, ${id}, ${servers})
    on conflict (cell_id) do update set servers = excluded.servers returning account`,
  )
  return row.account
}

/** Resolves to undefined if the cell has no account. */
export async function closeCellAccount(tx: Db, { id }: Pick<Cell, 'id'>): Promise<string | undefined> {
  const row = await maybeOne<{ account: string }>(
    tx,
    sql`update cell_accounts set cell_id = null where cell_id = ${id} returning account`,
  )
  return row?.account
}
