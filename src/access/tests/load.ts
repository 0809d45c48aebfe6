import { type Db, many } from '../../db/pool.ts'
import { type SqlFragment, sql } from '../../db/sql.ts'
import { rfc3339 } from '../../kernel/clock.ts'
import type { Uuid } from '../../kernel/ids.ts'
import { compilePolicy } from '../../kernel/ip/ranges.ts'
import { refusing } from '../module_mode.ts'
import { type RestrictionType, ruleLines, rulesAbout, toRule } from '../policies.ts'
import type { RouteMatch } from './route_of_path.ts'

export type TestType = 'api' | 'dashboard' | 'edge' | 'route'
export type AccessTestRow = {
  id: Uuid
  created_at: string
  description: string | null
  metadata: string | null
  address: string
  type: TestType
  /** The TCP edge or the route; null for others, and once it was deleted. */
  target_id: Uuid | null
  path: string | null
  expect: 'allowed' | 'refused'
}

export const testColumns = sql`
  t.id, t.created_at, t.description, t.metadata, host(t.address) as address, t.type, t.target_id, t.path, t.expect`

/** Those that a change could touch. `condition` is about `t`. */
export const loadTests = (db: Db, accountId: Uuid, condition: SqlFragment) =>
  many<AccessTestRow>(
    db,
    sql`select ${testColumns} from access_tests t where t.account_id = ${accountId} and ${condition} order by t.id`,
  )

export const idsOfTests = async (db: Db, accountId: Uuid, condition: SqlFragment): Promise<Uuid[]> =>
  (
    await many<{ id: Uuid }>(
      db,
      sql`select t.id from access_tests t where t.account_id = ${accountId} and ${condition}`,
    )
  ).map(({ id }) => id)

/** A TCP edge or a route, with the policies of its ip_restriction module; null if it has none that refuses. */
export type Target = RouteMatch & { test: Uuid; kind: 'tcp' | 'route'; policies: Uuid[] | null }

/**
 * For each test the TCP edge that it is about, or those routes of the edge that its path could belong to: with a match that may not
 * be in its one spelling, or that the path begins with, in any case of letters.
 */
export const loadTargets = (db: Db, accountId: Uuid, tests: readonly AccessTestRow[]) =>
  many<Target>(
    db,
    sql`
    select t.id as test, e.id, e.kind, e.match_type, e.match, m.policies,
      e.path_variants = 'restrict' and m.policies is not null as guards
    from unnest(${tests.map(({ id }) => id)}::uuid[], ${tests.map(({ target_id }) => target_id)}::uuid[],
        ${tests.map(({ path }) => path)}::text[]) as t (id, target_id, path)
      join edges named on named.account_id = ${accountId} and named.id = t.target_id
      join edges e on e.account_id = named.account_id
        and case named.kind when 'route' then e.parent_id = named.parent_id else e.id = named.id end
      left join lateral (
        select array(select p.ip_policy_id from edge_module_policies p
                     where p.account_id = m.account_id and p.edge_id = m.edge_id and p.module = m.module
                     order by p.position) as policies
        from edge_modules m
        where m.account_id = e.account_id and m.edge_id = e.id and ${refusing}) m on true
    where e.kind = 'tcp' or e.match ~ '[%;]|//|/\.' or starts_with(lower(t.path) || '/', lower(rtrim(e.match, '/')))`,
  )

export type Enforced = { id: Uuid; type: RestrictionType; policies: Uuid[] }
export const loadEnforced = (db: Db, accountId: Uuid, types: readonly RestrictionType[]) =>
  many<Enforced>(
    db,
    sql`
    select r.id, r.type, array(
      select a.ip_policy_id from ip_restriction_policies a
      where a.account_id = r.account_id and a.ip_restriction_id = r.id order by a.position) as policies
    from ip_restrictions r
    where r.account_id = ${accountId} and r.type = any(${types}) and r.enforced
    order by r.id`,
  )

export type PolicyAndAddress = { readonly policy: Uuid; readonly address: string }
/** What a policy has about one address. */
export type RulesAbout = { readonly ranges: ReturnType<typeof compilePolicy>; readonly ruleIds: readonly Uuid[] }

/** With few addresses, looking up the ranges around each reads less than even a small policy. */
const fewAddresses = 4
/** A policy with more rules is not read as a whole: its rules about each address are looked up. */
const mostRules = 5_000

/** What each policy has about the address beside it. A small policy with many addresses is read and compiled once for all of them. */
export async function loadRulesAbout(
  db: Db,
  accountId: Uuid,
  pairs: readonly PolicyAndAddress[],
  now: number,
): Promise<RulesAbout[]> {
  const byPolicy = Map.groupBy(pairs, ({ policy }) => policy)
  const busy = [...byPolicy].flatMap(([policy, { length }]) => (length > fewAddresses ? [policy] : []))
  const whole = busy.length ? await loadWhole(db, accountId, busy, now) : new Map<Uuid, RulesAbout>()
  const others = pairs.filter(({ policy }) => !whole.has(policy))
  const looked = (others.length ? await lookUp(db, accountId, others, now) : []).values()
  return pairs.map(({ policy }) => whole.get(policy) ?? (looked.next().value as RulesAbout))
}

type RulesRow = { rules: string | null; ids: Uuid[] | null }
const toRulesAbout = ({ rules, ids }: RulesRow): RulesAbout => ({
  ranges: compilePolicy(rules ? rules.split('\n').map(toRule) : []),
  ruleIds: ids ?? [],
})

/** Those of the policies that are small. */
async function loadWhole(db: Db, accountId: Uuid, policies: readonly Uuid[], now: number) {
  const rows = await many<RulesRow & { policy: Uuid }>(
    db,
    sql`
    select wanted.policy, r.rules, r.ids
    from unnest(${policies}::uuid[]) as wanted (policy)
      cross join lateral (
        select count(*) as counted, ${ruleLines} filter (where counts) as rules, array_agg(id order by cidr) filter (where counts) as ids
        from (
          select id, action, cidr, expires_at is null or expires_at > ${rfc3339(now)} as counts from ip_policy_rules
          where account_id = ${accountId} and ip_policy_id = wanted.policy limit ${mostRules + 1}) its) r
    where r.counted <= ${mostRules}`,
  )
  return new Map(rows.map((row) => [row.policy, toRulesAbout(row)]))
}

/** Only the rules that match the address: no others can change what is decided. */
async function lookUp(db: Db, accountId: Uuid, pairs: readonly PolicyAndAddress[], now: number): Promise<RulesAbout[]> {
  const around = sql`(
    select network(set_masklen(pair.address, length))::cidr
    from generate_series(0, case family(pair.address) when 4 then 32 else 128 end) as length)`
  const rows = await many<RulesRow>(
    db,
    sql`
    select matching.rules, matching.ids
    from unnest(${pairs.map(({ policy }) => policy)}::uuid[], ${pairs.map(({ address }) => address)}::inet[])
        with ordinality as pair (policy, address, at)
      cross join lateral (
        select string_agg(left(r.action, 1) || r.cidr::text, E'\n' order by r.cidr) as rules,
          array_agg(r.id order by r.cidr) as ids
        from (${rulesAbout(accountId, sql`pair.policy`, around, now)}) r) matching
    order by pair.at`,
  )
  return rows.map(toRulesAbout)
}
