import { dayMs } from '../../access/evidence/rule_hits.ts'
import { forgetOldRuleSets, noteRules, type RuleSetChange } from '../../access/evidence/rule_set_changes.ts'
import { type Db, many, maybeOne, one } from '../../db/pool.ts'
import { nothing, sql } from '../../db/sql.ts'
import type { Caller } from '../../identity/caller.ts'
import { rfc3339 } from '../../kernel/clock.ts'
import { type Id, toUuid, type Uuid } from '../../kernel/ids.ts'
import type { Action } from '../../kernel/ip/ranges.ts'
import { type PageQuery, rowsToFetch } from '../../kernel/paging.ts'

export type EvidenceRow = {
  id: Uuid
  cidr: string
  action: Action
  description: string | null
  hits: number
  hits_7d: number
  hits_30d: number
  last_hit_at: string | null
  counted_since: string
}
type Query = PageQuery & { before_id?: Id<'ipr'>; unused_since?: string }

/** Every change of the policy's rules raises it. Undefined if there is no such policy. */
export const findRevision = (db: Db, { accountId }: Caller, policyId: Id<'ipp'>) =>
  maybeOne<{ revision: number }>(
    db,
    sql`select revision from ip_policies where account_id = ${accountId} and id = ${toUuid(policyId)}`,
  )

/** Newest rule first. `only`: limits the result to these rules. */
export const listEvidence = (
  db: Db,
  { accountId }: Caller,
  policyId: Id<'ipp'>,
  query: Query,
  only: readonly Uuid[] | undefined,
  now: number,
) => {
  const since = (days: number) => sql`${rfc3339(now - (days - 1) * dayMs).slice(0, 10)}::date`
  const hitsOfDays = (days: number) => sql`
    (select coalesce(sum(d.hits), 0)::bigint from ip_rule_hit_days d
     where d.account_id = page.account_id and d.ip_policy_rule_id = page.id and d.day >= ${since(days)})`
  const unused = query.unused_since
    ? sql`and greatest(r.created_at, c.began_at) <= ${query.unused_since}::timestamptz
          and (h.last_at is null or h.last_at < ${query.unused_since}::timestamptz)`
    : nothing
  return many<EvidenceRow>(
    db,
    // Sums up days only for the rules of the page.
    sql`
    with page as (
      select r.account_id, r.id, r.cidr, r.action, r.description,
        coalesce(h.allowed + h.refused + h.warned, 0) as hits, h.last_at as last_hit_at,
        greatest(r.created_at, c.began_at) as counted_since
      from ip_policy_rules r cross join ip_rule_counting c
        left join ip_rule_hits h on h.account_id = r.account_id and h.ip_policy_rule_id = r.id
      where r.account_id = ${accountId} and r.ip_policy_id = ${toUuid(policyId)}
        ${only ? sql`and r.id = any(${only}::uuid[])` : nothing} ${unused}
        ${query.before_id ? sql`and r.id < ${toUuid(query.before_id)}` : nothing}
      order by r.id desc
      limit ${rowsToFetch(query)})
    select id, cidr::text, action, description, hits, ${hitsOfDays(7)} as hits_7d, ${hitsOfDays(30)} as hits_30d,
      last_hit_at, counted_since
    from page order by page.id desc`,
  )
}

/** Resolves to the number of removed and of remaining rules. */
export async function removeRules(tx: Db, change: RuleSetChange, policyId: Id<'ipp'>, ids: readonly Id<'ipr'>[]) {
  const { accountId } = change
  const policy = toUuid(policyId)
  const { removed } = await one<{ removed: number }>(
    tx,
    sql`
    with removed as (
      delete from ip_policy_rules
      where account_id = ${accountId} and ip_policy_id = ${policy} and id = any(${ids.map(toUuid)}::uuid[])
      returning cidr, action, expires_at),
    noted as (${noteRules(change, policy, 'removed', sql`removed`)})
    select count(*) as removed from removed`,
  )
  await forgetOldRuleSets(tx, change)
  const { rules } = await one<{ rules: number }>(
    tx,
    sql`select count(*) as rules from ip_policy_rules where account_id = ${accountId} and ip_policy_id = ${policy}`,
  )
  return { rules, removed }
}
