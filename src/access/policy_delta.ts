import { type Db, maybeOne } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { rfc3339 } from '../kernel/clock.ts'
import type { Uuid } from '../kernel/ids.ts'
import { checkedCidr } from '../kernel/ip/canonical_cidr.ts'
import { type Cidr, formatCidr, lastAddressOf, rangesAround } from '../kernel/ip/cidr.ts'
import { compilePolicy, type DatedRules } from '../kernel/ip/ranges.ts'
import { outermost, splicePolicy } from '../kernel/ip/splice.ts'
import {
  datedRules,
  type LoadedPolicy,
  momentOf,
  type RuleColumns,
  ruleExpiries,
  ruleIds,
  ruleLines,
} from './policies.ts'
import { createSlots, withoutUnused } from './rule_slots.ts'

/** Beyond these limits, compiling the whole policy is as fast. */
const maxRegions = 500
const maxRules = 5_000

/** A policy, and the regions where it differs from its previous revision. */
export type Continued = {
  readonly policy: LoadedPolicy
  readonly regions: readonly Cidr[]
  /** The rules that match an address in one of the regions. */
  readonly part: DatedRules
}

/**
 * Updates a compiled policy: recompiles only the ranges that changed or expired, from the rules that overlap them.
 * Undefined if the whole policy must be loaded because too much changed, the changes are not recorded, or the policy is
 * changing right now.
 */
export async function continuePolicy(
  db: Db,
  accountId: Uuid,
  before: LoadedPolicy,
  now: number,
): Promise<Continued | undefined> {
  // The clock was set back: expired rules may count again, and no index finds those.
  if (now < before.asOf) return undefined
  const changes = await readChanges(db, accountId, before, now)
  if (!changes || changes.noted !== changes.revision - before.revision) return undefined
  if (changes.cidrs.length > maxRegions) return undefined
  const regions = outermost(changes.cidrs.map(checkedCidr))
  const then = { revision: changes.revision, asOf: now, validUntil: momentOf(changes.valid_until) }
  if (regions.length === 0) return { policy: { ...before, ...then }, regions, part: noRules }
  const found = await readRules(db, accountId, before.id, regions, now)
  // Every change of a rule raises the revision, so equal revisions mean that these rules belong to the changes just
  // read.
  if (found?.revision !== changes.revision || found.count > maxRules) return undefined
  const part = { rules: [...datedRules(found)], ruleIds: found.ids ?? Buffer.alloc(0) }
  return { policy: { ...splice(before, regions, part), ...then }, regions, part }
}
const noRules: DatedRules = { rules: [], ruleIds: Buffer.alloc(0) }

type Changes = { revision: number; noted: number; cidrs: string[]; valid_until: string | null }

const readChanges = (db: Db, accountId: Uuid, { id, revision, asOf }: LoadedPolicy, now: number) =>
  maybeOne<Changes>(
    db,
    sql`
    with noted as (
      select cidrs from ip_policy_changes
      where account_id = ${accountId} and ip_policy_id = ${id} and revision > ${revision}),
    touched as (
      select unnest(cidrs) as cidr from noted
      union
      (select cidr from ip_policy_rules
       where account_id = ${accountId} and ip_policy_id = ${id}
         and expires_at > ${rfc3339(asOf)} and expires_at <= ${rfc3339(now)}
       limit ${maxRegions + 1}))
    select p.revision, (select count(*) from noted) as noted, array(select cidr::text from touched) as cidrs,
      (select expires_at from ip_policy_rules
       where account_id = ${accountId} and ip_policy_id = ${id} and expires_at > ${rfc3339(now)}
       order by expires_at limit 1) as valid_until
    from ip_policies p where p.account_id = ${accountId} and p.id = ${id}`,
  )

type Found = RuleColumns & { revision: number; count: number }

/** Rules that overlap one of the regions: inside it or around it. */
function readRules(db: Db, accountId: Uuid, id: Uuid, regions: readonly Cidr[], now: number) {
  const around = new Set(
    regions.flatMap(({ network, prefixLength }) => rangesAround(network).slice(0, prefixLength).map(formatCidr)),
  )
  const ofPolicy = sql`account_id = ${accountId} and ip_policy_id = ${id}`
  return maybeOne<Found>(
    db,
    sql`
    with matching as (
      -- Each by the unique key: the planner would choose by the average policy.
      select inside.* from unnest(${regions.map(formatCidr)}::cidr[], ${regions.map(lastOf)}::cidr[]) as region (first, last)
        cross join lateral (
          select id, action, cidr, expires_at from ip_policy_rules
          where ${ofPolicy} and cidr >= region.first and cidr <= region.last
          order by cidr limit ${maxRules + 1}) inside
      union all
      select outside.* from unnest(${[...around]}::cidr[]) as around (range)
        cross join lateral (
          select id, action, cidr, expires_at from ip_policy_rules
          where ${ofPolicy} and cidr >= around.range and cidr <= around.range
          order by cidr limit 1) outside
      limit ${maxRules + 1}),
    counting as (select * from matching where expires_at is null or expires_at > ${rfc3339(now)})
    select p.revision, (select count(*) from matching) as count, c.rules, c.ids, c.expiries
    from ip_policies p,
      (select ${ruleLines} as rules, ${ruleIds} as ids, ${ruleExpiries} as expiries from counting) c
    where p.account_id = ${accountId} and p.id = ${id}`,
  )
}

const lastOf = (cidr: Cidr): string => formatCidr(lastAddressOf(cidr))

function splice(before: LoadedPolicy, regions: readonly Cidr[], part: DatedRules): LoadedPolicy {
  const slots = createSlots(before.ruleIds, part.ruleIds)
  const ranges = splicePolicy(before.ranges, { regions, part: compilePolicy(part.rules), ...slots })
  return { ...before, ...withoutUnused(ranges, slots.ruleIds()) }
}
