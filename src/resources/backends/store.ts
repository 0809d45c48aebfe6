import { deleteUnlessReferenced } from '../../db/in_use.ts'
import { type Db, many, maybeOne, one } from '../../db/pool.ts'
import { nothing, sql } from '../../db/sql.ts'
import type { Caller } from '../../identity/caller.ts'
import { invalidField, Refusal } from '../../kernel/errors.ts'
import { type Id, newUuid, toId, toUuid, type Uuid } from '../../kernel/ids.ts'
import { type PageQuery, rowsToFetch } from '../../kernel/paging.ts'
import type { AnnotationColumns } from '../../operations/annotations.ts'

type BackendColumns = AnnotationColumns & {
  address: string
  tls_enabled: boolean
  protocol: 'http1' | 'http2'
  send_proxy_protocol: boolean
}
export type BackendRow = BackendColumns & { id: Uuid; created_at: string }
type Account = Pick<Caller, 'accountId'>

const columns = sql`id, description, metadata, address, tls_enabled, protocol, send_proxy_protocol, created_at`

export const insertBackend = (db: Db, { accountId }: Account, fields: BackendColumns) =>
  one<BackendRow>(
    db,
    sql`
    insert into backends (account_id, id, description, metadata, address, tls_enabled, protocol, send_proxy_protocol)
    values (${accountId}, ${newUuid()}, ${fields.description}, ${fields.metadata}, ${fields.address}, ${fields.tls_enabled},
      ${fields.protocol}, ${fields.send_proxy_protocol})
    returning ${columns}`,
  )

export const findBackend = (db: Db, { accountId }: Account, id: Id<'bkdst'>, lock: boolean) =>
  maybeOne<BackendRow>(
    db,
    sql`
    select ${columns} from backends
    where account_id = ${accountId} and id = ${toUuid(id)} ${lock ? sql`for update` : nothing}`,
  )

export const listBackends = (db: Db, { accountId }: Account, query: PageQuery & { before_id?: Id<'bkdst'> }) =>
  many<BackendRow>(
    db,
    sql`
    select ${columns} from backends
    where account_id = ${accountId} ${query.before_id ? sql`and id < ${toUuid(query.before_id)}` : nothing}
    order by id desc
    limit ${rowsToFetch(query)}`,
  )

export const updateBackend = (db: Db, { accountId }: Account, id: Uuid, fields: BackendColumns) =>
  one<BackendRow>(
    db,
    sql`
    update backends
    set description = ${fields.description}, metadata = ${fields.metadata}, address = ${fields.address}, tls_enabled = ${fields.tls_enabled},
      protocol = ${fields.protocol}, send_proxy_protocol = ${fields.send_proxy_protocol}
    where account_id = ${accountId} and id = ${id}
    returning ${columns}`,
  )

export async function deleteBackend(tx: Db, { accountId }: Account, id: Id<'bkdst'>): Promise<void> {
  const statement = sql`delete from backends where account_id = ${accountId} and id = ${toUuid(id)}`
  if (await deleteUnlessReferenced(tx, statement, ['edge_modules_backend_fk'])) return
  const users = await many<{ id: Uuid; kind: 'tcp' | 'route' }>(
    tx,
    sql`
    select e.id, e.kind from edge_modules m join edges e on e.account_id = m.account_id and e.id = m.edge_id
    where m.account_id = ${accountId} and m.backend_id = ${toUuid(id)} order by 1 limit 10`,
  )
  const used_by = users.map((user) => toId(user.kind === 'tcp' ? 'edgtcp' : 'edghtsrt', user.id)).join(', ')
  throw new Refusal(
    'ERR_BACKEND_IN_USE',
    `This backend is still used by ${used_by}. Assign them another backend first.`,
    {
      details: { used_by },
    },
  )
}

/** Refuses the request unless the backend exists in the account, and holds it against a delete that races this. */
export async function holdBackend(tx: Db, { accountId }: Account, id: Id<'bkdst'>, field: string): Promise<void> {
  const found = await maybeOne(
    tx,
    sql`select from backends where account_id = ${accountId} and id = ${toUuid(id)} for key share`,
  )
  if (!found) throw invalidField(field, 'must be a static backend of this account')
}
