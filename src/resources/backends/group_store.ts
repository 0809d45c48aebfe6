import { type Db, later, many, maybeOne } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { type BackendId, type BackendKind, backendKindOf, backendKinds } from '../../kernel/edge/backends.ts'
import { type Id, newUuid, toId, toUuid, type Uuid } from '../../kernel/ids.ts'
import type { AnnotationColumns } from '../../operations/annotations.ts'
import { type Account, type BackendRow, noAddress, rereadBackend } from './store.ts'

export type GroupKind = 'weighted' | 'failover'
export type Member = { id: Id<'bkdst' | 'bkdhr'>; weight: number | null }
export type GroupRow = BackendRow & { members: { id: Uuid; kind: BackendKind; weight: number | null }[] }

/** Lock the members first: locking them after the insert could deadlock with a delete of one. */
export async function insertGroup(
  tx: Db,
  account: Account,
  kind: GroupKind,
  fields: AnnotationColumns,
  members: readonly Member[],
): Promise<GroupRow> {
  const id = newUuid()
  await later(
    tx,
    sql`
    insert into backends (account_id, id, kind, description, metadata, address, tls_enabled)
    values (${account.accountId}, ${id}, ${kind}, ${fields.description}, ${fields.metadata}, ${noAddress}, false)`,
  )
  await insertMembers(tx, account, kind, id, members)
  return rereadBackend(tx, account, toId(backendKinds[kind], id))
}

/** Without `members`, keeps the current ones. Lock the members first, as in `insertGroup`. */
export async function updateGroup(
  tx: Db,
  account: Account,
  kind: GroupKind,
  id: Uuid,
  fields: AnnotationColumns,
  members: readonly Member[] | undefined,
): Promise<GroupRow> {
  const { accountId } = account
  await later(
    tx,
    sql`
    update backends set description = ${fields.description}, metadata = ${fields.metadata}
    where account_id = ${accountId} and id = ${id}`,
  )
  if (members) {
    await later(tx, sql`delete from backend_members where account_id = ${accountId} and group_id = ${id}`)
    await insertMembers(tx, account, kind, id, members)
  }
  return rereadBackend(tx, account, toId(backendKinds[kind], id))
}

const insertMembers = (tx: Db, { accountId }: Account, kind: GroupKind, id: Uuid, members: readonly Member[]) =>
  later(
    tx,
    sql`
    insert into backend_members (account_id, group_kind, group_id, member_kind, member_id, weight, position)
    select ${accountId}, ${kind}, ${id}, sent.kind, sent.id, sent.weight, sent.position
    from unnest(${members.map((member) => backendKindOf(member.id))}::text[], ${members.map((member) => toUuid(member.id))}::uuid[],
                ${members.map(({ weight }) => weight)}::int[]) with ordinality as sent (kind, id, weight, position)`,
  )

/** Whether the backend can send an HTTP response. Requires a lock on the backend. */
export async function canRespond(tx: Db, { accountId }: Account, id: BackendId): Promise<boolean> {
  const kind = backendKindOf(id)
  if (kind !== 'failover') return kind === 'http_response'
  const member = await maybeOne(
    tx,
    sql`
    select from backend_members
    where account_id = ${accountId} and group_id = ${toUuid(id)} and member_kind = 'http_response' limit 1`,
  )
  return member !== undefined
}

/** TCP edges that use a backend. Requires a lock on the backend. */
export const listTcpUsers = (tx: Db, { accountId }: Account, id: Uuid) =>
  many<{ id: Uuid }>(
    tx,
    sql`
    select e.id from edge_modules m join edges e on e.account_id = m.account_id and e.id = m.edge_id and e.kind = 'tcp'
    where m.account_id = ${accountId} and m.backend_id = ${id} order by 1 limit 10`,
  )
