import { type AccessTestRow, testColumns } from '../../access/tests/load.ts'
import { type Db, later, many, maybeOne, one } from '../../db/pool.ts'
import { nothing, sql } from '../../db/sql.ts'
import type { Caller } from '../../identity/caller.ts'
import { type Id, newUuid, toUuid, type Uuid } from '../../kernel/ids.ts'
import { formatAddress, parseAddress } from '../../kernel/ip/address.ts'
import { rowsToFetch } from '../../kernel/paging.ts'
import type { AccessTestQuery } from './schema.ts'

type Account = Pick<Caller, 'accountId'>
export type AccessTestFields = Omit<AccessTestRow, 'id' | 'created_at'>

export const insertAccessTest = (tx: Db, { accountId }: Account, test: AccessTestFields) =>
  one<AccessTestRow>(
    tx,
    sql`
    insert into access_tests as t (account_id, id, description, metadata, address, type, target_id, path, expect)
    values (${accountId}, ${newUuid()}, ${test.description}, ${test.metadata}, ${test.address}, ${test.type},
      ${test.target_id}, ${test.path}, ${test.expect})
    returning ${testColumns}`,
  )

export const findAccessTest = (db: Db, { accountId }: Account, id: Id<'act'>, lock: boolean) =>
  maybeOne<AccessTestRow>(
    db,
    sql`
    select ${testColumns} from access_tests t
    where t.account_id = ${accountId} and t.id = ${toUuid(id)} ${lock ? sql`for update` : nothing}`,
  )

export function listAccessTests(db: Db, { accountId }: Account, query: AccessTestQuery) {
  const { type, edge_id, route_id, address, expect } = query
  // Text that is not an address matches no test.
  const parsed = address === undefined ? undefined : parseAddress(address)
  return many<AccessTestRow>(
    db,
    sql`
    select ${testColumns} from access_tests t
    where t.account_id = ${accountId} ${query.before_id ? sql`and t.id < ${toUuid(query.before_id)}` : nothing}
      ${type ? sql`and t.type = ${type}` : nothing}
      ${edge_id ? sql`and t.type = 'edge' and t.target_id = ${toUuid(edge_id)}` : nothing}
      ${route_id ? sql`and t.type = 'route' and t.target_id = ${toUuid(route_id)}` : nothing}
      ${address === undefined ? nothing : parsed ? sql`and t.address = ${formatAddress(parsed)}::inet` : sql`and false`}
      ${expect ? sql`and t.expect = ${expect}` : nothing}
    order by t.id desc
    limit ${rowsToFetch(query)}`,
  )
}

export const updateAccessTest = (tx: Db, { accountId }: Account, id: Uuid, test: AccessTestFields) =>
  one<AccessTestRow>(
    tx,
    sql`
    update access_tests t set description = ${test.description}, metadata = ${test.metadata}, address = ${test.address},
      type = ${test.type}, target_id = ${test.target_id}, path = ${test.path}, expect = ${test.expect}
    where t.account_id = ${accountId} and t.id = ${id}
    returning ${testColumns}`,
  )

export const deleteAccessTest = (tx: Db, { accountId }: Account, id: Uuid): Promise<void> =>
  later(tx, sql`delete from access_tests where account_id = ${accountId} and id = ${id}`)
