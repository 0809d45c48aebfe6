import { type Db, type DbPool, many, maybeOne, one } from '../db/pool.ts'
import { nothing, type SqlFragment, sql } from '../db/sql.ts'
import { snapshot } from '../db/transaction.ts'
import { rfc3339 } from '../kernel/clock.ts'
import { yieldToEventLoop } from '../kernel/flow/yield_to_event_loop.ts'
import { type Uuid, uuidOfHex } from '../kernel/ids.ts'
import type { Address } from '../kernel/ip/address.ts'
import { formatCidr, parseCidr, rangesAround } from '../kernel/ip/cidr.ts'
import {
  type CompiledPolicy,
  compilePolicy,
  compilePolicyInSlices,
  type DatedRule,
  type DatedRules,
  type Rule,
} from '../kernel/ip/ranges.ts'
import type { Decider } from './refusal.ts'

/** Types of traffic that a restriction can apply to. */
export const restrictionTypes = ['dashboard', 'api', 'agent', 'endpoints'] as const
export type RestrictionType = (typeof restrictionTypes)[number]

/** A policy compiled for decisions. Valid until the policy changes or one of its rules expires. */
export type LoadedPolicy = {
  readonly id: Uuid
  readonly revision: number
  readonly ranges: CompiledPolicy
  /** Rule ids by number, 16 bytes each: a hundred thousand strings would take ten times the memory. */
  readonly ruleIds: Buffer
  /** Milliseconds. Rules that had expired by then are excluded. */
  readonly asOf: number
  /** Milliseconds of the first expiry of a rule. */
  readonly validUntil: number
}
export type PolicyRules = Omit<LoadedPolicy, 'ranges'> & DatedRules
export type RestrictionOutline = {
  readonly id: Uuid
  readonly type: RestrictionType
  readonly enforced: boolean
  readonly policies: readonly { id: Uuid; revision: number }[]
}

/** All restrictions of an account and the revisions of their policies, from one snapshot. */
export async function loadOutline(
  db: Db,
  accountId: Uuid,
): Promise<{ revision: number; restrictions: RestrictionOutline[] }> {
  const { policy_revision, restrictions } = await one<{ policy_revision: number; restrictions: RestrictionOutline[] }>(
    db,
    sql`
    select a.policy_revision, coalesce((
      select json_agg(json_build_object('id', r.id, 'type', r.type, 'enforced', r.enforced, 'policies', (
        select json_agg(json_build_object('id', p.id, 'revision', p.revision) order by rp.position)
        from ip_restriction_policies rp join ip_policies p on p.account_id = rp.account_id and p.id = rp.ip_policy_id
        where rp.account_id = r.account_id and rp.ip_restriction_id = r.id)) order by r.id)
      from ip_restrictions r where r.account_id = a.id), '[]') as restrictions
    from accounts a where a.id = ${accountId}`,
  )
  return { revision: policy_revision, restrictions }
}

/** One rule per line: `a10.0.0.0/8` allows, `d10.1.0.0/16` denies. */
export const ruleLines = sql`string_agg(left(action, 1) || cidr::text, E'\n' order by cidr)`
/** The ids of the rules, 16 bytes each, in the same order. */
export const ruleIds = sql`string_agg(uuid_send(id), ''::bytea order by cidr)`
/** For each rule that expires, its id (16 bytes) and the moment in milliseconds (8 bytes). */
export const ruleExpiries = sql`string_agg(
  uuid_send(id) || int8send(ceil(extract(epoch from expires_at) * 1000)::bigint), ''::bytea order by cidr)
  filter (where expires_at is not null)`

/** Rules per statement. Reading a large policy in one statement would exceed its time limit. */
const rulesAtOnce = 50_000

export type RuleColumns = { rules: string | null; ids: Buffer | null; expiries: Buffer | null }
type Batch = RuleColumns & {
  revision: number
  last: string | null
  valid_until: string | null
}

/** Compiles the rules that have not expired, all read from one snapshot. */
export async function loadPolicy(
  pool: DbPool,
  accountId: Uuid,
  id: Uuid,
  now: number,
): Promise<LoadedPolicy | undefined> {
  const loaded = await loadPolicyRules(pool, accountId, id, now)
  if (!loaded) return undefined
  const { rules, ...policy } = loaded
  return { ...policy, ranges: await compilePolicyInSlices(rules) }
}

/** Like `loadPolicy`, without compiling the rules. */
export async function loadPolicyRules(
  pool: DbPool,
  accountId: Uuid,
  id: Uuid,
  now: number,
): Promise<PolicyRules | undefined> {
  const first = await readBatch(pool, accountId, id, now)
  if (!first) return undefined
  const isAll = first.last === null
  return toRules(id, isAll ? [first] : await snapshot(pool, (tx) => readBatches(tx, accountId, id, now)), now)
}

async function readBatches(tx: Db, accountId: Uuid, id: Uuid, now: number): Promise<Batch[]> {
  const batches: Batch[] = []
  for (let after: string | null = null; ; ) {
    const batch = await readBatch(tx, accountId, id, now, after)
    if (!batch) return []
    batches.push(batch)
    after = batch.last
    if (after === null) return batches
  }
}

/**
 * Returns one row for any number of rules, because the driver is slow with many rows. The rules are sorted by range,
 * which the compiler needs. `last` is null on the last batch.
 */
const readBatch = (db: Db, accountId: Uuid, id: Uuid, now: number, after: string | null = null) =>
  maybeOne<Batch>(
    db,
    sql`
    with batch as (
      select id, action, cidr, expires_at from ip_policy_rules
      where account_id = ${accountId} and ip_policy_id = ${id} ${after === null ? nothing : sql`and cidr > ${after}::cidr`}
        and (expires_at is null or expires_at > ${rfc3339(now)})
      order by cidr
      limit ${rulesAtOnce})
    select p.revision, b.rules, b.ids, b.expiries, b.valid_until, case when b.count = ${rulesAtOnce} then b.last::text end as last
    from ip_policies p,
      (select count(*), ${ruleLines} as rules, ${ruleIds} as ids, ${ruleExpiries} as expiries,
         min(expires_at) as valid_until,
         (array_agg(cidr order by cidr desc))[1] as last
       from batch) b
    where p.account_id = ${accountId} and p.id = ${id}`,
  )

async function toRules(id: Uuid, batches: readonly Batch[], now: number): Promise<PolicyRules | undefined> {
  const [first] = batches
  if (!first) return undefined
  const rules: DatedRule[] = []
  for (const batch of batches)
    for (const rule of datedRules(batch)) if (rules.push(rule) % 2_000 === 0) await yieldToEventLoop()
  return {
    id,
    revision: first.revision,
    rules,
    ruleIds: Buffer.concat(batches.map(({ ids }) => ids ?? Buffer.alloc(0))),
    asOf: now,
    validUntil: Math.min(...batches.map(({ valid_until }) => momentOf(valid_until))),
  }
}

/** Both columns sort the rules alike, so one pass finds the expiring ones. */
export function* datedRules({ rules, ids, expiries }: RuleColumns): Generator<DatedRule> {
  let at = 0
  for (const [index, line] of (rules?.split('\n') ?? []).entries()) {
    const rule = toRule(line)
    const id = ids?.subarray(index * 16, (index + 1) * 16)
    if (!expiries || !id?.equals(expiries.subarray(at, at + 16))) yield rule
    else {
      yield { ...rule, expiresAt: Number(expiries.readBigInt64BE(at + 16)) }
      at += 24
    }
  }
}

export const momentOf = (validUntil: string | null): number =>
  validUntil === null ? Number.POSITIVE_INFINITY : Date.parse(validUntil)

/** The reverse of `ruleLines`. */
export function toRule(line: string): Rule {
  const { cidr, fault } = parseCidr(line.slice(1))
  // Stored ranges come only from our own strict parser; anything else must not open access.
  if (fault !== undefined) throw new Error(`an IP policy holds a range that ${fault}: ${line}`)
  return { cidr, action: line.startsWith('a') ? 'allow' : 'deny' }
}

/**
 * Rules of a policy whose range is one of `ranges`, the ranges around an address. The lateral join looks up each by the
 * unique key. With a plain equality, PostgreSQL expects few rules, judging by the average policy, and reads all rules
 * of a large one.
 */
export const rulesAbout = (accountId: Uuid, policy: SqlFragment, ranges: SqlFragment, now: number): SqlFragment => sql`
  select matching.id, matching.action, matching.cidr
  from ${ranges} as around (range) cross join lateral (
    select id, action, cidr, expires_at from ip_policy_rules
    where account_id = ${accountId} and ip_policy_id = ${policy} and cidr >= around.range and cidr <= around.range
    order by cidr limit 1) matching
  where matching.expires_at is null or matching.expires_at > ${rfc3339(now)}`

type EnforcedRow = { id: Uuid; type: RestrictionType; policies: string[] }

/**
 * The enforced restrictions of these types, with only the rules that match the address: no other rule affects the
 * decision, and an index finds them among 100,000.
 */
export async function loadEnforcedAbout(
  db: Db,
  accountId: Uuid,
  types: readonly RestrictionType[],
  address: Address | undefined,
  now: number,
): Promise<(Decider & { readonly id: Uuid; readonly type: RestrictionType })[]> {
  const ranges = address ? rangesAround(address).map(formatCidr) : []
  const rows = await many<EnforcedRow>(
    db,
    sql`
    select r.id, r.type, array(
      select coalesce((
        select ${ruleLines}
        from (${rulesAbout(accountId, sql`a.ip_policy_id`, sql`unnest(${ranges}::cidr[])`, now)}) matching), '')
      from ip_restriction_policies a
      where a.account_id = r.account_id and a.ip_restriction_id = r.id
      order by a.position) as policies
    from ip_restrictions r
    where r.account_id = ${accountId} and r.type = any(${types}) and r.enforced
    order by r.id`,
  )
  return rows.map(({ id, type, policies }) => ({
    id,
    type,
    enforced: true,
    policies: policies.map((lines) => ({ ranges: compilePolicy(lines ? lines.split('\n').map(toRule) : []) })),
  }))
}

export function ruleIdAt({ ruleIds }: Pick<LoadedPolicy, 'ruleIds'>, index: number): Uuid {
  return uuidOfHex(ruleIds.toString('hex', index * 16, index * 16 + 16))
}

export const weightOf = ({ ranges, ruleIds }: LoadedPolicy): number =>
  ruleIds.length +
  ranges.v4.starts.byteLength +
  ranges.v4.verdicts.byteLength +
  ranges.v6.starts.byteLength +
  ranges.v6.verdicts.byteLength
