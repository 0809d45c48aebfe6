import { type Db, maybeOne } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { isId, toUuid, type Uuid } from '../../kernel/ids.ts'

export const noSuchAccount = (nameOrId: string): string =>
  `gatehouse: there is no account ${JSON.stringify(nameOrId)}. Use --account with its name or id (ac_…).`

/** Finds an account by its name or id, as an operator types it. */
export const findAccount = (db: Db, nameOrId: string): Promise<{ id: Uuid; name: string } | undefined> =>
  maybeOne(
    db,
    isId('ac', nameOrId)
      ? sql`select id, name from accounts where id = ${toUuid(nameOrId)}`
      : sql`select id, name from accounts where name = ${nameOrId}`,
  )
