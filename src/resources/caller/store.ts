import { type Db, one } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import type { Caller } from '../../identity/caller.ts'

export async function accountNameOf(db: Db, { accountId }: Caller): Promise<string> {
  const { name } = await one<{ name: string }>(db, sql`select name from accounts where id = ${accountId}`)
  return name
}
