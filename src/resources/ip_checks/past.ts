import type { RestrictionDecision, Verdict } from '../../access/decisions.ts'
import { changesSince } from '../../access/past/changes_since.ts'
import {
  NotRecorded,
  type PastChange,
  type PastDecider,
  type PastRule,
  type PastWorld,
  policiesIn,
  ruleSetOperations,
  type Subject,
  walkBack,
} from '../../access/past/walk_back.ts'
import { loadOutline, type RestrictionType } from '../../access/policies.ts'
import { decideEach } from '../../access/refusal.ts'
import { type Db, type DbPool, maybeOne } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { snapshot } from '../../db/transaction.ts'
import type { Caller } from '../../identity/caller.ts'
import { Refusal } from '../../kernel/errors.ts'
import { type Id, isId, toId, toUuid, type Uuid } from '../../kernel/ids.ts'
import type { Address } from '../../kernel/ip/address.ts'
import { canonicalCidr, checkedCidr } from '../../kernel/ip/canonical_cidr.ts'
import { formatCidr, rangesAround } from '../../kernel/ip/cidr.ts'
import { compilePolicy, lookup } from '../../kernel/ip/ranges.ts'
import { findModulePolicies, findTarget, type Target } from '../edges/store.ts'
import { listRuleSetDeltas, listRulesAround } from '../newly_refused_addresses/store.ts'

/** Targets that can have an `ip_restriction` module. */
export type Decidable = Target & { kind: 'tcp' | 'route' }
type Asked = {
  readonly type: RestrictionType
  readonly target: Id | undefined
  readonly address: Address
  readonly at: number
}
export type PastPolicyVerdict = ReturnType<Verdict['explain']>[number] & { readonly cidr?: string }
type PastVerdict = Omit<Verdict, 'explain'> & { readonly explain: () => PastPolicyVerdict[] }
export type Past = {
  readonly target: Decidable | undefined
  readonly module: (PastVerdict & { enforced: boolean }) | undefined
  readonly decisions: (PastVerdict & Pick<RestrictionDecision, 'restrictionId' | 'enforced'>)[]
}

/**
 * Reconstructs what decided about an address at that time: reverts the current state through the audit log, in one
 * snapshot.
 */
export async function decidedAt(db: DbPool, caller: Caller, asked: Asked): Promise<Past> {
  try {
    return await snapshot(db, (tx) => pastOf(tx, caller, asked))
  } catch (error) {
    if (error instanceof NotRecorded) throw notRecorded(error)
    throw error
  }
}

export const notRecorded = ({ change: { operation, resource_id, created_at } }: NotRecorded): Refusal =>
  new Refusal(
    'ERR_NOT_RECORDED',
    `What was in force then is not recorded: ${operation ? `before ${operation} of ${resource_id}` : 'the audit log has nothing'}. Ask about ${created_at} or later.`,
    { details: { earliest: created_at, ...(operation && { operation, resource: resource_id }) } },
  )

async function pastOf(tx: Db, caller: Caller, { type, target: id, address, at }: Asked): Promise<Past> {
  const changes = await changesSince(tx, caller.accountId, at, decidingChanges(id))
  const target =
    id && (((await findTarget(tx, caller, id)) as Decidable | undefined) ?? (await formerTarget(tx, caller, id)))
  const { restrictions } = await loadOutline(tx, caller.accountId)
  const module = target && (await findModulePolicies(tx, caller, target.id))
  const ofType = restrictions.filter((each) => each.type === type)
  const present = [...ofType, ...(module ? [module] : [])].flatMap(({ policies }) => policies.map((each) => each.id))
  const former = policiesIn(changes).flatMap((policy) => (isId('ipp', policy) ? toUuid(policy) : []))
  const ranges = rangesAround(address).map(formatCidr)
  const world: PastWorld = {
    restrictions: new Map(ofType.map((each) => [toId('ipx', each.id), deciderOf(each)])),
    rules: await rulesOf(tx, caller, [...new Set([...present, ...former])], ranges),
    lost: new Map(),
    isThere: target !== undefined && !('isGone' in target),
    module: module && deciderOf(module),
  }
  walkBack(world, changes, await subjectOf(tx, caller, { type, target: id, changes, ranges }))
  if (id && !(target && world.isThere))
    throw new Refusal('ERR_NOT_FOUND', 'This account had no such TCP edge or route at that time.')
  return decide(world, target, address, at)
}

const decidingChanges = (target: Id | undefined) => sql`(
  left(e.resource_id, 4) in ('ipx_', 'ipr_') or e.operation = any(${ruleSetOperations}::text[])
  or e.resource_id = ${target ?? ''} or (${target ?? ''} <> '' and e.operation = 'https_edges.delete'))`

/** Finds a deleted target through its audit event. */
async function formerTarget(tx: Db, caller: Caller, id: Id): Promise<(Decidable & { isGone: true }) | undefined> {
  const gone = await maybeOne<{ edge: string | null }>(
    tx,
    sql`
    select coalesce(before->>'edge_id', case when operation = 'https_edges.delete' then resource_id end) as edge
    from audit_events where account_id = ${caller.accountId} and after is null
      and (resource_id = ${id} or operation = 'https_edges.delete' and before @> ${JSON.stringify({ routes: [{ id }] })}::jsonb)
    order by id desc limit 1`,
  )
  if (!gone) return undefined
  const parent_id = gone.edge === null ? null : toUuid(gone.edge as Id<'edghts'>)
  return { id: toUuid(id), kind: parent_id ? 'route' : 'tcp', parent_id, isGone: true }
}

const deciderOf = ({ enforced, policies }: { enforced: boolean; policies: readonly { id: Uuid }[] }): PastDecider => ({
  enforced,
  policies: policies.map(({ id }) => toId('ipp', id)),
})

async function rulesOf(tx: Db, caller: Caller, policies: readonly Uuid[], ranges: readonly string[]) {
  const rules = new Map<string, Map<string, PastRule>>(policies.map((id) => [toId('ipp', id), new Map()]))
  for (const { id, ip_policy_id, cidr, allow, expires_at } of await listRulesAround(tx, caller, policies, ranges))
    rules
      .get(toId('ipp', ip_policy_id))
      ?.set(canonicalCidr(cidr), { ...pastRule({ allow, expires_at }), id: toId('ipr', id) })
  return rules
}

const pastRule = ({ allow, expires_at }: { allow: boolean | null; expires_at: string | null }): PastRule => ({
  action: allow ? 'allow' : 'deny',
  expiresAt: expires_at === null ? null : Date.parse(expires_at),
  id: null,
})

type About = Pick<Subject, 'type' | 'target'> & { changes: readonly PastChange[]; ranges: readonly string[] }
async function subjectOf(tx: Db, caller: Caller, { type, target, changes, ranges }: About): Promise<Subject> {
  const ruleSets = changes.filter(({ operation }) => ruleSetOperations.includes(operation))
  const operations = [...new Set(ruleSets.map(({ operation_id }) => operation_id))]
  const deltas = operations.length ? await listRuleSetDeltas(tx, caller, operations, ranges) : []
  const byOperation = Map.groupBy(deltas, ({ operation_id }) => operation_id)
  const around = new Set(ranges)
  return {
    ...{ type, target },
    isAround: (cidr) => around.has(cidr),
    deltaOf({ operation_id, resource_id }) {
      const rows = byOperation
        .get(operation_id)
        ?.filter(({ ip_policy_id: id }) => id === null || toId('ipp', id) === resource_id)
      // If a change set changed a policy's rules twice, the record does not tell the two changes apart.
      const same = ruleSets.filter((each) => each.operation_id === operation_id && each.resource_id === resource_id)
      if (!rows?.length || same.length !== 1) return undefined
      const added = rows.flatMap(({ part, cidr }) => (part === 'added' && cidr !== null ? canonicalCidr(cidr) : []))
      const removed = rows.flatMap(({ part, cidr, ...rule }) =>
        part !== 'added' && cidr !== null ? [[canonicalCidr(cidr), pastRule(rule)] as const] : [],
      )
      return { added, removed: new Map(removed) }
    },
  }
}

function decide(world: PastWorld, target: Decidable | undefined, address: Address, at: number): Past {
  const verdictOf = ({ enforced, policies }: PastDecider) => {
    const compiled = policies.map((policy) => {
      const lost = world.lost.get(policy)
      if (lost) throw new NotRecorded(lost)
      return { policy, ...compiledAt(world.rules.get(policy) ?? new Map(), at) }
    })
    const [decision] = decideEach([{ enforced, policies: compiled }], address)
    const policy = compiled[decision?.policy ?? -1]
    const rule = policy?.rules[decision?.rule ?? -1]?.id
    return {
      enforced,
      allowed: decision?.allowed === true,
      ...(policy && rule && { policyId: toUuid(policy.policy as Id), ruleId: toUuid(rule as Id) }),
      explain: () =>
        compiled.map(({ policy: id, ranges, rules }): PastPolicyVerdict => {
          const found = lookup(ranges, address)
          const matching = found && rules[found.rule]
          return {
            policyId: toUuid(id as Id),
            ...(found && { action: found.action }),
            ...(matching && { cidr: matching.cidr, ...(matching.id && { ruleId: toUuid(matching.id as Id) }) }),
          }
        }),
    }
  }
  return {
    target,
    module: world.module && verdictOf(world.module),
    decisions: [...world.restrictions]
      .sort(([one], [other]) => (one < other ? -1 : 1))
      .map(([id, decider]) => ({ restrictionId: toUuid(id as Id), ...verdictOf(decider) })),
  }
}

/** Rules in force at that time, in the order of the compiler. */
function compiledAt(rules: ReadonlyMap<string, PastRule>, at: number) {
  const counting = [...rules]
    .map(([cidr, rule]) => ({ ...rule, cidr, range: checkedCidr(cidr) }))
    .filter(({ expiresAt }) => expiresAt === null || expiresAt > at)
    .sort((a, b) => a.range.prefixLength - b.range.prefixLength)
  return { rules: counting, ranges: compilePolicy(counting.map(({ action, range }) => ({ action, cidr: range }))) }
}
