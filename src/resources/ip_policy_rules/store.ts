import { violates } from '../../db/failures.ts'
import { type Db, later, many, maybeOne, one } from '../../db/pool.ts'
import { nothing, sql } from '../../db/sql.ts'
import type { Caller } from '../../identity/caller.ts'
import { Refusal } from '../../kernel/errors.ts'
import { type Id, newUuid, toUuid, type Uuid } from '../../kernel/ids.ts'
import type { Action } from '../../kernel/ip/ranges.ts'
import { type PageQuery, rowsToFetch } from '../../kernel/paging.ts'
import type { AnnotationColumns } from '../../operations/annotations.ts'
import { holdIpPolicy } from '../ip_policies/store.ts'

export type NewRule = AnnotationColumns & { cidr: string; action: Action; expires_at: string | null }
export type IpPolicyRuleRow = NewRule & { id: Uuid; ip_policy_id: Uuid; created_at: string }
type Account = Pick<Caller, 'accountId'>

const columns = sql`id, ip_policy_id, cidr::text, action, description, metadata, expires_at, created_at`

export const insertRule = (db: Db, { accountId }: Account, policyId: Id<'ipp'>, rule: NewRule) =>
  refusingTakenCidr(
    one<IpPolicyRuleRow>(
      db,
      sql`
      insert into ip_policy_rules (account_id, id, ip_policy_id, cidr, action, description, metadata, expires_at)
      values (${accountId}, ${newUuid()}, ${toUuid(policyId)}, ${rule.cidr}, ${rule.action}, ${rule.description},
              ${rule.metadata}, ${rule.expires_at})
      returning ${columns}`,
    ),
  )

export async function findRule(db: Db, account: Account, id: Id<'ipr'>, lock: boolean) {
  const find = (locking = nothing) =>
    maybeOne<IpPolicyRuleRow>(
      db,
      sql`
      select ${columns} from ip_policy_rules
      where account_id = ${account.accountId} and id = ${toUuid(id)} ${locking}`,
    )
  const found = await find()
  if (!found || !lock) return found
  // Locks the policy before the rule, as a cascading delete of the policy does; the other order deadlocks.
  await holdIpPolicy(db, account, found.ip_policy_id)
  return find(sql`for update`)
}

type RuleQuery = PageQuery & { before_id?: Id<'ipr'>; ip_policy_id?: Id<'ipp'> }
export const listRules = (db: Db, { accountId }: Account, query: RuleQuery) =>
  many<IpPolicyRuleRow>(
    db,
    sql`
    select ${columns} from ip_policy_rules
    where account_id = ${accountId}
      ${query.ip_policy_id ? sql`and ip_policy_id = ${toUuid(query.ip_policy_id)}` : nothing}
      ${query.before_id ? sql`and id < ${toUuid(query.before_id)}` : nothing}
    order by id desc
    limit ${rowsToFetch(query)}`,
  )

/**
 * All rules of a policy in order of creation, in batches that let other requests run. One statement reads them, so they
 * are from one snapshot.
 */
export async function* everyRuleOf(tx: Db, { accountId }: Account, policyId: Id<'ipp'>) {
  await later(
    tx,
    sql`
    declare every_rule no scroll cursor for
    select ${columns} from ip_policy_rules
    where account_id = ${accountId} and ip_policy_id = ${toUuid(policyId)}
    order by id`,
  )
  for (;;) {
    const batch = await many<IpPolicyRuleRow>(tx, sql`fetch 2000 from every_rule`)
    if (batch.length === 0) return
    yield batch
  }
}

/** Ranges of rules by id. */
export const findRanges = (db: Db, { accountId }: Account, ids: readonly Uuid[]) =>
  many<{ id: Uuid; cidr: string }>(
    db,
    sql`select id, cidr::text from ip_policy_rules where account_id = ${accountId} and id = any(${ids}::uuid[])`,
  )

export const updateRule = (db: Db, { accountId }: Account, id: Uuid, rule: Omit<NewRule, 'action'>) =>
  refusingTakenCidr(
    one<IpPolicyRuleRow>(
      db,
      sql`
      update ip_policy_rules
      set cidr = ${rule.cidr}, description = ${rule.description}, metadata = ${rule.metadata}, expires_at = ${rule.expires_at}
      where account_id = ${accountId} and id = ${id}
      returning ${columns}`,
    ),
  )

export const deleteRule = (db: Db, { accountId }: Account, id: Id<'ipr'>) =>
  later(db, sql`delete from ip_policy_rules where account_id = ${accountId} and id = ${toUuid(id)}`)

async function refusingTakenCidr<Result>(query: Promise<Result>): Promise<Result> {
  try {
    return await query
  } catch (cause) {
    if (!violates(cause, 'ip_policy_rules_cidr_unique')) throw cause
    throw new Refusal(
      'ERR_CIDR_TAKEN',
      'This IP policy already has a rule for this range. Change or delete that rule.',
      {
        cause,
        details: { field: 'cidr' },
      },
    )
  }
}
