import { refusing } from '../../access/module_mode.ts'
import { loadOutline, type RestrictionOutline } from '../../access/policies.ts'
import { type Db, many, maybeOne } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import type { Caller } from '../../identity/caller.ts'
import { firstUuidOf, type Uuid } from '../../kernel/ids.ts'
import { type Fields, ruleSetOperations } from './history.ts'

type Account = Pick<Caller, 'accountId'>

export type TargetRow = { id: Uuid; kind: 'tcp' | 'route'; parent_id: Uuid | null }
/** TCP edges and routes among these that still exist. */
export const listTargets = (db: Db, { accountId }: Account, ids: readonly Uuid[]) =>
  many<TargetRow>(
    db,
    sql`select id, kind, parent_id from edges where account_id = ${accountId} and id = any(${ids}::uuid[]) and kind <> 'https'`,
  )

/** Number of an account's events examined, latest first. */
const eventsLookedAt = 10_000

export type EventRow = {
  id: Uuid
  created_at: string
  operation: string
  operation_id: string
  resource_id: string
  owner_id: string | null
  api_key_id: string | null
  before: Fields | null
  after: Fields | null
}

/** Later changes that may have altered a decision, latest first, by position. */
export const listDecidingEvents = (db: Db, { accountId }: Account, targets: readonly string[], since: number) =>
  many<EventRow>(
    db,
    // Ids give the approximate time, and so the partitions to read; positions give the order.
    sql`
    select id, created_at, operation, operation_id, resource_id, owner_id, api_key_id, before, after from (
      select * from audit_events
      where account_id = ${accountId} and id >= ${firstUuidOf(since)}
      order by position desc, id desc
      limit ${eventsLookedAt}) seen
    where left(resource_id, 4) in ('ipx_', 'ipr_') or operation = any(${ruleSetOperations}::text[])
      or resource_id = any(${targets}::text[])
    order by position desc, id desc`,
  )

/** Whether the account has more events since then than are examined. */
export const hasMoreEvents = async (db: Db, { accountId }: Account, since: number): Promise<boolean> =>
  (await maybeOne(
    db,
    sql`
    select id from audit_events where account_id = ${accountId} and id >= ${firstUuidOf(since)}
    order by position desc, id desc offset ${eventsLookedAt} limit 1`,
  )) !== undefined

export const restrictionsOf = async (db: Db, { accountId }: Account): Promise<RestrictionOutline[]> =>
  (await loadOutline(db, accountId)).restrictions

export type ModuleRow = { edge_id: Uuid; policy_ids: Uuid[] }
/** Policies of `ip_restriction` modules that refuse. */
export const listModules = (db: Db, { accountId }: Account, targets: readonly Uuid[]) =>
  many<ModuleRow>(
    db,
    sql`
    select m.edge_id, array(
      select p.ip_policy_id from edge_module_policies p
      where p.account_id = m.account_id and p.edge_id = m.edge_id and p.module = m.module order by p.position) as policy_ids
    from edge_modules m
    where m.account_id = ${accountId} and m.edge_id = any(${targets}::uuid[]) and ${refusing}`,
  )

type RuleRow = { cidr: string; allow: boolean; expires_at: string | null }

/** Rules of these policies with these ranges, including expired ones. */
export const listRulesAround = (db: Db, { accountId }: Account, policies: readonly Uuid[], ranges: readonly string[]) =>
  many<RuleRow & { id: Uuid; ip_policy_id: Uuid }>(
    db,
    // Looks up each range by the unique key; see loadEnforcedAbout().
    sql`
    select found.id, policy.id as ip_policy_id, found.cidr::text as cidr, found.action = 'allow' as allow, found.expires_at
    from unnest(${policies}::uuid[]) as policy (id) cross join unnest(${ranges}::cidr[]) as around (range)
      cross join lateral (
        select id, cidr, action, expires_at from ip_policy_rules
        where account_id = ${accountId} and ip_policy_id = policy.id
          and cidr >= around.range and cidr <= around.range
        order by cidr limit 1) found`,
  )

type RuleSetDeltaRow = {
  operation_id: string
  /** Null: the operation changed only one policy. */
  ip_policy_id: Uuid | null
  part: string
  cidr: string | null
  allow: boolean | null
  expires_at: string | null
}

/** How bulk changes altered rules with these ranges. Every change has at least one row, whose `cidr` may be null. */
export const listRuleSetDeltas = (
  db: Db,
  { accountId }: Account,
  operationIds: readonly string[],
  ranges: readonly string[],
) =>
  many<RuleSetDeltaRow>(
    db,
    sql`
    select c.operation_id, c.ip_policy_id, c.part, r.cidr::text as cidr, r.allow, r.expires_at
    from unnest(${operationIds}::text[]) as wanted (id)
      join rule_set_changes c on c.account_id = ${accountId} and c.operation_id = wanted.id
      left join lateral (
        select * from unnest(c.cidrs, c.allows, c.expiries) as r (cidr, allow, expires_at)
        where r.cidr = any(${ranges}::cidr[])) r on true`,
  )
