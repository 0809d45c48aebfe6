import { type Db, many } from '../../db/pool.ts'
import { type SqlFragment, sql } from '../../db/sql.ts'
import type { Uuid } from '../../kernel/ids.ts'
import { compilePolicy } from '../../kernel/ip/ranges.ts'
import { refusing } from '../module_mode.ts'
import { type RestrictionType, rulesAbout, toRule } from '../policies.ts'
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

/** The rules of each policy that match the address beside it: no others can change what is decided. */
export async function loadRulesAbout(
  db: Db,
  accountId: Uuid,
  pairs: readonly PolicyAndAddress[],
  now: number,
): Promise<RulesAbout[]> {
  if (pairs.length === 0) return []
  const around = sql`(
    select network(set_masklen(pair.address, length))::cidr
    from generate_series(0, case family(pair.address) when 4 then 32 else 128 end) as length)`
  const rows = await many<{ rules: string | null; ids: Uuid[] | null }>(
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
  return rows.map(({ rules, ids }) => ({
    ranges: compilePolicy(rules ? rules.split('\n').map(toRule) : []),
    ruleIds: ids ?? [],
  }))
}
