import { deleteUnlessReferenced } from '../../db/in_use.ts'
import { type Db, many, maybeOne } from '../../db/pool.ts'
import { nothing, type SqlFragment, sql } from '../../db/sql.ts'
import type { Caller } from '../../identity/caller.ts'
import { type BackendId, type BackendKind, backendKindOf, backendKinds } from '../../kernel/edge/backends.ts'
import { canonicalHostport } from '../../kernel/edge/hostport.ts'
import { invalidField, Refusal } from '../../kernel/errors.ts'
import { type IdPrefix, toId, toUuid, type Uuid } from '../../kernel/ids.ts'
import { type PageQuery, rowsToFetch } from '../../kernel/paging.ts'
import type { AnnotationColumns } from '../../operations/annotations.ts'

export type Account = Pick<Caller, 'accountId'>
export type BackendRow = AnnotationColumns & { id: Uuid; created_at: string }

/** Placeholder for kinds without an address: the previous version reads every row as a static backend. */
export const noAddress = 'none.invalid:1'

const members = sql`
  select json_agg(json_build_object('id', m.member_id, 'kind', m.member_kind, 'weight', m.weight) order by m.position)
  from backend_members m where m.account_id = b.account_id and m.group_id = b.id`

/** Columns of each kind besides its annotations. */
const columnsOf: Record<BackendKind, SqlFragment> = {
  static: sql`b.address, b.tls_enabled, b.protocol, b.send_proxy_protocol, b.health_check`,
  weighted: sql`(${members}) as members`,
  failover: sql`(${members}) as members`,
  http_response: sql`b.status_code, b.headers, b.body`,
}

const select = (kind: BackendKind, { accountId }: Account, condition: SqlFragment) => sql`
  select b.id, b.description, b.metadata, b.created_at, ${columnsOf[kind]} from backends b
  where b.account_id = ${accountId} and b.kind = ${kind} ${condition}`

/** The id's prefix determines the kind. */
export async function findBackend<Row extends BackendRow>(
  db: Db,
  account: Account,
  id: BackendId,
  lock: boolean,
): Promise<Row | undefined> {
  const kind = backendKindOf(id)
  // A separate statement: one that waits for the lock would still read members from before the wait.
  if (lock)
    await maybeOne(
      db,
      sql`select from backends where account_id = ${account.accountId} and kind = ${kind} and id = ${toUuid(id)} for update`,
    )
  return maybeOne<Row>(db, select(kind, account, sql`and b.id = ${toUuid(id)}`))
}

/** Reads the backend again after a change in this transaction. */
export async function rereadBackend<Row extends BackendRow>(tx: Db, account: Account, id: BackendId): Promise<Row> {
  const row = await findBackend<Row>(tx, account, id, false)
  if (!row) throw new Error('a backend that is held by this transaction is not there')
  return row
}

export const listBackends = <Row extends BackendRow>(
  db: Db,
  account: Account,
  kind: BackendKind,
  query: PageQuery & { before_id?: BackendId; address?: string; backend_id?: BackendId },
) =>
  many<Row>(
    db,
    select(
      kind,
      account,
      sql`
      ${query.before_id ? sql`and b.id < ${toUuid(query.before_id)}` : nothing}
      ${query.address === undefined ? nothing : sql`and b.address = ${canonicalHostport(query.address)}`}
      ${query.backend_id ? sql`and b.id in (select m.group_id from backend_members m where m.account_id = ${account.accountId} and m.member_id = ${toUuid(query.backend_id)})` : nothing}
      order by b.id desc limit ${rowsToFetch(query)}`,
    ),
  )

const prefixOfUser = { ...backendKinds, tcp: 'edgtcp', route: 'edghtsrt' } as const satisfies Record<string, IdPrefix>

/** Deletes a group's memberships, not its members. */
export async function deleteBackend(tx: Db, { accountId }: Account, id: BackendId): Promise<void> {
  const statement = sql`delete from backends where account_id = ${accountId} and id = ${toUuid(id)}`
  if (await deleteUnlessReferenced(tx, statement, ['edge_modules_backend_fk', 'backend_members_member_fk'])) return
  const users = await many<{ id: Uuid; kind: keyof typeof prefixOfUser }>(
    tx,
    sql`
    select e.id, e.kind from edge_modules m join edges e on e.account_id = m.account_id and e.id = m.edge_id
    where m.account_id = ${accountId} and m.backend_id = ${toUuid(id)}
    union all
    select g.group_id, g.group_kind from backend_members g
    where g.account_id = ${accountId} and g.member_id = ${toUuid(id)}
    order by 1 limit 10`,
  )
  const used_by = users.map((user) => toId(prefixOfUser[user.kind], user.id)).join(', ')
  throw new Refusal('ERR_BACKEND_IN_USE', `This backend is still used by ${used_by}. Remove it there first.`, {
    details: { used_by },
  })
}

/**
 * Refuses the request unless all backends exist in the account, and locks them against a concurrent delete. `place`
 * locates each in the request.
 */
export async function holdBackends(
  tx: Db,
  { accountId }: Account,
  ids: readonly BackendId[],
  place: (id: BackendId, index: number) => string,
): Promise<void> {
  const found = await many<{ id: Uuid; kind: BackendKind }>(
    tx,
    sql`
    select id, kind from backends where account_id = ${accountId} and id = any(${ids.map(toUuid)})
    order by id for key share`,
  )
  const existing = new Set<string>(found.map(({ id, kind }) => toId(backendKinds[kind], id)))
  for (const [index, id] of ids.entries())
    if (!existing.has(id)) throw invalidField(place(id, index), 'must be a backend of this account')
}
