import type { RestrictionType } from '../../access/policies.ts'
import { type Db, later, many, maybeOne, one } from '../../db/pool.ts'
import { nothing, sql } from '../../db/sql.ts'
import type { Caller } from '../../identity/caller.ts'
import { Refusal } from '../../kernel/errors.ts'
import { type Id, newUuid, toUuid, type Uuid } from '../../kernel/ids.ts'
import { type PageQuery, rowsToFetch } from '../../kernel/paging.ts'
import type { AnnotationColumns } from '../../operations/annotations.ts'

export type IpRestrictionRow = AnnotationColumns & {
  id: Uuid
  created_at: string
  enforced: boolean
  type: RestrictionType
  ip_policy_ids: Uuid[]
}
type Account = Pick<Caller, 'accountId'>

const columns = sql`
  id, created_at, description, metadata, enforced, type,
  array(select ip_policy_id from ip_restriction_policies a
        where a.account_id = r.account_id and a.ip_restriction_id = r.id order by position) as ip_policy_ids`

export const findIpRestriction = (db: Db, { accountId }: Account, id: Id<'ipx'>, lock: boolean) =>
  maybeOne<IpRestrictionRow>(
    db,
    sql`
    select ${columns} from ip_restrictions r
    where account_id = ${accountId} and id = ${toUuid(id)} ${lock ? sql`for update` : nothing}`,
  )

type IpRestrictionQuery = PageQuery & {
  before_id?: Id<'ipx'>
  type?: RestrictionType
  enforced?: boolean
  ip_policy_id?: Id<'ipp'>
}

export const listIpRestrictions = (db: Db, { accountId }: Account, query: IpRestrictionQuery) =>
  many<IpRestrictionRow>(
    db,
    sql`
    select ${columns} from ip_restrictions r
    where account_id = ${accountId} ${query.before_id ? sql`and id < ${toUuid(query.before_id)}` : nothing}
    ${query.type ? sql`and type = ${query.type}` : nothing}
    ${query.enforced === undefined ? nothing : sql`and enforced = ${query.enforced}`}
    ${
      query.ip_policy_id
        ? sql`and id in (
            select a.ip_restriction_id from ip_restriction_policies a
            where a.account_id = ${accountId} and a.ip_policy_id = ${toUuid(query.ip_policy_id)})`
        : nothing
    }
    order by id desc
    limit ${rowsToFetch(query)}`,
  )

type NewIpRestriction = AnnotationColumns & {
  enforced: boolean
  type: RestrictionType
  policyIds: readonly Id<'ipp'>[]
}

export async function insertIpRestriction(
  tx: Db,
  account: Account,
  fields: NewIpRestriction,
): Promise<IpRestrictionRow> {
  const row = await one<Omit<IpRestrictionRow, 'ip_policy_ids'>>(
    tx,
    sql`
    insert into ip_restrictions (account_id, id, type, enforced, description, metadata)
    values (${account.accountId}, ${newUuid()}, ${fields.type}, ${fields.enforced}, ${fields.description}, ${fields.metadata})
    returning id, created_at, description, metadata, enforced, type`,
  )
  await attachPolicies(tx, account, row.id, fields.policyIds)
  return { ...row, ip_policy_ids: fields.policyIds.map(toUuid) }
}

export const updateIpRestriction = (
  db: Db,
  { accountId }: Account,
  row: Omit<IpRestrictionRow, 'ip_policy_ids' | 'type'>,
) =>
  one<IpRestrictionRow>(
    db,
    sql`
    update ip_restrictions r set enforced = ${row.enforced}, description = ${row.description}, metadata = ${row.metadata}
    where account_id = ${accountId} and id = ${row.id}
    returning ${columns}`,
  )

export async function replacePolicies(
  tx: Db,
  account: Account,
  id: Uuid,
  policyIds: readonly Id<'ipp'>[],
): Promise<void> {
  await later(
    tx,
    sql`delete from ip_restriction_policies where account_id = ${account.accountId} and ip_restriction_id = ${id}`,
  )
  await attachPolicies(tx, account, id, policyIds)
}

/** One record carries all of an account's restrictions to edges, and must fit into one command of the proxy. */
const maxEndpointsReferences = 700

/** Call it after the change, with the account's row locked, so that concurrent requests cannot exceed the limit. */
export async function limitEndpointsRestrictions(tx: Db, { accountId }: Account): Promise<void> {
  const { references } = await one<{ references: number }>(
    tx,
    sql`
    select count(distinct r.id) + count(*) as references
    from ip_restrictions r join ip_restriction_policies a on a.account_id = r.account_id and a.ip_restriction_id = r.id
    where r.account_id = ${accountId} and r.type = 'endpoints'`,
  )
  if (references <= maxEndpointsReferences) return
  throw new Refusal(
    'ERR_TOO_MANY',
    `An account's 'endpoints' restrictions and their policies are limited to ${maxEndpointsReferences} in total; this change would make ${references}. Combine rules into fewer policies.`,
  )
}

const attachPolicies = (tx: Db, { accountId }: Account, id: Uuid, policyIds: readonly Id<'ipp'>[]) =>
  later(
    tx,
    sql`
    insert into ip_restriction_policies (account_id, ip_restriction_id, ip_policy_id, position)
    select ${accountId}, ${id}, sent.id, sent.position from unnest(${policyIds.map(toUuid)}::uuid[]) with ordinality as sent (id, position)`,
  )

export const deleteIpRestriction = (db: Db, { accountId }: Account, id: Id<'ipx'>) =>
  later(db, sql`delete from ip_restrictions where account_id = ${accountId} and id = ${toUuid(id)}`)

export const listEnforced = (db: Db, { accountId }: Account, type: RestrictionType) =>
  many<IpRestrictionRow>(
    db,
    sql`
    select ${columns} from ip_restrictions r
    where account_id = ${accountId} and type = ${type} and enforced
    order by id for update`,
  )
