import { type Db, maybeOne, one } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { rfc3339 } from '../kernel/clock.ts'
import type { Uuid } from '../kernel/ids.ts'
import { parseCidr } from '../kernel/ip/cidr.ts'
import { type CompiledPolicy, compilePolicy, type Rule } from '../kernel/ip/ranges.ts'

/** What traffic a restriction is about. */
export const restrictionTypes = ['dashboard', 'api', 'agent', 'endpoints'] as const
export type RestrictionType = (typeof restrictionTypes)[number]

/** A policy's rules as requests are judged by them. It holds until the policy is changed or a rule in it expires. */
export type LoadedPolicy = {
  readonly id: Uuid
  readonly revision: number
  readonly ranges: CompiledPolicy
  /** The ids of the rules, 16 bytes each, in the order of compilation: a hundred thousand strings would weigh ten times as much. */
  readonly ruleIds: Buffer
  /** Milliseconds; the first moment at which a rule of it expires. */
  readonly validUntil: number
}
export type RestrictionOutline = {
  readonly id: Uuid
  readonly type: RestrictionType
  readonly enforced: boolean
  readonly policies: readonly { id: Uuid; revision: number }[]
}

/** All restrictions of an account and the revisions of their policies, as of one moment. */
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

type PolicyRow = { revision: number; rules: string | null; ids: Buffer | null; valid_until: string | null }

/** The policy with the rules that count now. One row comes back, whatever their number: rows are what costs in the driver. */
export async function loadPolicy(db: Db, accountId: Uuid, id: Uuid, now: number): Promise<LoadedPolicy | undefined> {
  const row = await maybeOne<PolicyRow>(
    db,
    sql`
    select p.revision,
      string_agg(left(r.action, 1) || r.cidr::text, E'\n' order by r.id) as rules,
      string_agg(uuid_send(r.id), ''::bytea order by r.id) as ids,
      min(r.expires_at) as valid_until
    from ip_policies p
      left join ip_policy_rules r on r.account_id = p.account_id and r.ip_policy_id = p.id
        and (r.expires_at is null or r.expires_at > ${rfc3339(now)})
    where p.account_id = ${accountId} and p.id = ${id}
    group by p.revision`,
  )
  if (!row) return undefined
  const rules: Rule[] = []
  for (const line of row.rules?.split('\n') ?? []) {
    const { cidr, fault } = parseCidr(line.slice(1))
    // Only our own strict parser's output is ever stored; anything else must not turn into an open door.
    if (fault !== undefined) throw new Error(`IP policy ${id} holds a range that ${fault}: ${line}`)
    rules.push({ cidr, action: line.startsWith('a') ? 'allow' : 'deny' })
  }
  return {
    id,
    revision: row.revision,
    ranges: compilePolicy(rules),
    ruleIds: row.ids ?? Buffer.alloc(0),
    validUntil: row.valid_until === null ? Number.POSITIVE_INFINITY : Date.parse(row.valid_until),
  }
}

export function ruleIdAt({ ruleIds }: LoadedPolicy, index: number): Uuid {
  const hex = ruleIds.toString('hex', index * 16, index * 16 + 16)
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}` as Uuid
}

export const weightOf = ({ ranges, ruleIds }: LoadedPolicy): number =>
  ruleIds.length +
  ranges.v4.starts.byteLength +
  ranges.v4.verdicts.byteLength +
  ranges.v6.starts.byteLength +
  ranges.v6.verdicts.byteLength
