import { forgetOldRuleSets, noteRules, type RuleSetChange } from '../../access/evidence/rule_set_changes.ts'
import { deleteUnlessReferenced } from '../../db/in_use.ts'
import { type Db, later, many, maybeOne, one } from '../../db/pool.ts'
import { nothing, type SqlFragment, sql } from '../../db/sql.ts'
import type { Caller } from '../../identity/caller.ts'
import { invalidField, Refusal } from '../../kernel/errors.ts'
import { type Id, newUuid, toId, toUuid, type Uuid } from '../../kernel/ids.ts'
import { type PageQuery, rowsToFetch } from '../../kernel/paging.ts'
import type { AnnotationColumns } from '../../operations/annotations.ts'

export type IpPolicyRow = AnnotationColumns & { id: Uuid; created_at: string }
type Account = Pick<Caller, 'accountId'>

const columns = sql`id, description, metadata, created_at`

export const insertIpPolicy = (db: Db, { accountId }: Account, { description, metadata }: AnnotationColumns) =>
  one<IpPolicyRow>(
    db,
    sql`
    insert into ip_policies (account_id, id, description, metadata)
    values (${accountId}, ${newUuid()}, ${description}, ${metadata})
    returning ${columns}`,
  )

export const findIpPolicy = (db: Db, { accountId }: Account, id: Id<'ipp'>, lock: boolean) =>
  maybeOne<IpPolicyRow>(
    db,
    sql`
    select ${columns} from ip_policies
    where account_id = ${accountId} and id = ${toUuid(id)} ${lock ? sql`for update` : nothing}`,
  )

export const listIpPolicies = (db: Db, { accountId }: Account, query: PageQuery & { before_id?: Id<'ipp'> }) =>
  many<IpPolicyRow>(
    db,
    sql`
    select ${columns} from ip_policies
    where account_id = ${accountId} ${query.before_id ? sql`and id < ${toUuid(query.before_id)}` : nothing}
    order by id desc
    limit ${rowsToFetch(query)}`,
  )

export const updateIpPolicy = (
  db: Db,
  { accountId }: Account,
  id: Uuid,
  { description, metadata }: AnnotationColumns,
) =>
  one<IpPolicyRow>(
    db,
    sql`
    update ip_policies set description = ${description}, metadata = ${metadata}
    where account_id = ${accountId} and id = ${id}
    returning ${columns}`,
  )

/** Foreign keys that keep a policy in use. Add the key of a new attachment here and to `usersOf`. */
const attachments = ['ip_restriction_policies_ip_policy_fk', 'edge_module_policies_ip_policy_fk']

export async function deleteIpPolicy(tx: Db, change: RuleSetChange, id: Id<'ipp'>): Promise<void> {
  const { accountId } = change
  const itsRules = sql`ip_policy_rules where account_id = ${accountId} and ip_policy_id = ${toUuid(id)}`
  await later(tx, noteRules(change, toUuid(id), 'removed', itsRules))
  await forgetOldRuleSets(tx, change)
  const statement = sql`delete from ip_policies where account_id = ${accountId} and id = ${toUuid(id)}`
  if (await deleteUnlessReferenced(tx, statement, attachments)) return
  const users = await usersOf(tx, { accountId }, id)
  throw new Refusal('ERR_IP_POLICY_IN_USE', `This IP policy is still used by ${users}. Remove it there first.`, {
    details: { used_by: users },
  })
}

/** The first resources that use a policy, for a message. */
async function usersOf(db: Db, { accountId }: Account, id: Id<'ipp'>): Promise<string> {
  const rows = await many<{ id: Uuid; kind: keyof typeof userPrefixes }>(
    db,
    sql`
    (select ip_restriction_id as id, 'restriction' as kind from ip_restriction_policies
     where account_id = ${accountId} and ip_policy_id = ${toUuid(id)} order by 1 limit 10)
    union all
    (select e.id, e.kind from edge_module_policies p join edges e on e.account_id = p.account_id and e.id = p.edge_id
     where p.account_id = ${accountId} and p.ip_policy_id = ${toUuid(id)} order by 1 limit 10)
    limit 10`,
  )
  return rows.map((row) => toId(userPrefixes[row.kind], row.id)).join(', ')
}
const userPrefixes = { restriction: 'ipx', tcp: 'edgtcp', https: 'edghts', route: 'edghtsrt' } as const

/**
 * Refuses the request unless all policies exist in the account, and locks them: a concurrent delete waits for our
 * transaction and then violates the foreign key.
 */
export async function holdIpPolicies(
  tx: Db,
  { accountId }: Account,
  ids: readonly Id<'ipp'>[],
  prefix = '',
): Promise<void> {
  const found = await many<{ id: Uuid }>(
    tx,
    sql`
    select id from ip_policies where account_id = ${accountId} and id = any(${ids.map(toUuid)})
    order by id for key share`,
  )
  const existing = new Set(found.map(({ id }) => toId('ipp', id)))
  const missing = ids.findIndex((id) => !existing.has(id))
  if (missing >= 0) throw invalidField(`${prefix}ip_policy_ids[${missing}]`, 'must be an IP policy of this account')
}

/** Makes deletes and rule changes of the policy wait for our transaction. */
export const holdIpPolicy = (tx: Db, { accountId }: Account, id: Uuid): Promise<void> =>
  later(tx, sql`select from ip_policies where account_id = ${accountId} and id = ${id} for no key update`)

/** Changes kept per policy, to update compiled policies from an earlier revision. */
const keptChanges = 100

/**
 * Call it with every change of the policy's rules. `cidrs`: all ranges that the change affects; without them, the
 * revision may have changed anything. Resolves to false if the account has no such policy.
 */
export async function raiseIpPolicyRevision(
  tx: Db,
  { accountId }: Account,
  id: Id<'ipp'>,
  cidrs?: readonly string[],
): Promise<boolean> {
  const raise = sql`
    update ip_policies set revision = revision + 1 where account_id = ${accountId} and id = ${toUuid(id)}
    returning revision`
  const row = await maybeOne(tx, cidrs ? noting(raise, accountId, id, cidrs) : raise)
  return row !== undefined
}

/** Records ranges that become known only after `raiseIpPolicyRevision`. Call it in the same transaction. */
export const noteIpPolicyChange = (tx: Db, { accountId }: Account, id: Id<'ipp'>, cidrs: readonly string[]) =>
  later(
    tx,
    noting(
      sql`select revision from ip_policies where account_id = ${accountId} and id = ${toUuid(id)}`,
      accountId,
      id,
      cidrs,
    ),
  )

const noting = (revision: SqlFragment, accountId: Uuid, id: Id<'ipp'>, cidrs: readonly string[]): SqlFragment => sql`
  with changed as (${revision}), noted as (
    insert into ip_policy_changes (account_id, ip_policy_id, revision, cidrs)
    select ${accountId}, ${toUuid(id)}, revision, ${cidrs}::cidr[] from changed), forgotten as (
    delete from ip_policy_changes c using changed
    where c.account_id = ${accountId} and c.ip_policy_id = ${toUuid(id)} and c.revision <= changed.revision - ${keptChanges})
  select from changed`

export async function isAttachedToRestriction(tx: Db, { accountId }: Account, id: Id<'ipp'>): Promise<boolean> {
  const { attached } = await one<{ attached: boolean }>(
    tx,
    sql`
    select exists (
      select from ip_restriction_policies where account_id = ${accountId} and ip_policy_id = ${toUuid(id)}
    ) as attached`,
  )
  return attached
}
