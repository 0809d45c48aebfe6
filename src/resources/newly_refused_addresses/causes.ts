import type { DbPool } from '../../db/pool.ts'
import { snapshot } from '../../db/transaction.ts'
import type { Caller } from '../../identity/caller.ts'
import { type Id, isId, toId, toUuid, type Uuid } from '../../kernel/ids.ts'
import { type Address, parseAddress } from '../../kernel/ip/address.ts'
import { canonicalCidr } from '../../kernel/ip/canonical_cidr.ts'
import { formatCidr, rangesAround } from '../../kernel/ip/cidr.ts'
import {
  type Cause,
  causeOf,
  type PastEvent,
  type PastRule,
  policiesIn,
  type RuleSetDelta,
  ruleSetOperations,
  type Subject,
  type World,
} from './history.ts'
import {
  type EventRow,
  hasMoreEvents,
  listDecidingEvents,
  listModules,
  listRuleSetDeltas,
  listRulesAround,
  restrictionsOf,
} from './store.ts'

/** A currently refused address. `target`: the TCP edge or route. */
export type Refused = { type: string; ip: string; target: { id: Uuid; publicId: Id } | undefined }

/** How far back to search for the cause: as long as addresses are kept. */
const lookBackMs = 8 * 24 * 60 * 60 * 1_000
/** Limit of look-ups of a range in a policy. Beyond it, the cause is reported as not searched for. */
const mostLookUps = 200_000

type Past = Awaited<ReturnType<typeof loadPast>>

/** The cause of each refusal, in order, from one snapshot. */
export async function causesOf(db: DbPool, caller: Caller, refused: readonly Refused[], now: number): Promise<Cause[]> {
  if (refused.length === 0) return []
  const past = await snapshot(db, (tx) => loadPast(tx, caller, refused, now))
  return refused.map((each) => {
    if (!past.rules)
      return { kind: 'unknown', reason: 'Too many policies decide here for the change to be looked for.' }
    const cause = causeOf(worldOf(past, each), past.events, subjectOf(past, each), now, now - lookBackMs)
    return cause.kind === 'unknown' && past.isCut
      ? { kind: 'unknown', reason: 'It is not among the latest changes, and there are too many to look further back.' }
      : cause
  })
}

const rangesOf = (ip: string): string[] => rangesAround(parseAddress(ip) as Address).map(formatCidr)

async function loadPast(
  tx: Parameters<typeof restrictionsOf>[0],
  caller: Caller,
  refused: readonly Refused[],
  now: number,
) {
  const targets = refused.flatMap(({ target }) => target ?? [])
  const rows = await listDecidingEvents(
    tx,
    caller,
    targets.map(({ publicId }) => publicId),
    now - lookBackMs,
  )
  const restrictions = await restrictionsOf(tx, caller)
  const modules = await listModules(
    tx,
    caller,
    targets.map(({ id }) => id),
  )
  const events = rows.map(toPastEvent)
  const policies = new Set<Uuid>([
    ...restrictions.flatMap((each) => each.policies.map(({ id }) => id)),
    ...modules.flatMap(({ policy_ids }) => policy_ids),
    ...policiesIn(events).flatMap((id) => (isId('ipp', id) ? toUuid(id) : [])),
  ])
  const ranges = [...new Set(refused.flatMap(({ ip }) => rangesOf(ip)))]
  const isCut = await hasMoreEvents(tx, caller, now - lookBackMs)
  if (policies.size * ranges.length > mostLookUps) return { events, restrictions, modules, isCut }
  const rules = await listRulesAround(tx, caller, [...policies], ranges)
  const ruleSets = events.filter(({ operation }) => ruleSetOperations.includes(operation))
  const deltas = await listRuleSetDeltas(
    tx,
    caller,
    [...new Set(ruleSets.map(({ operation_id }) => operation_id))],
    ranges,
  )
  const canonical = <Row extends { cidr: string | null }>(row: Row) => ({
    ...row,
    cidr: row.cidr === null ? null : canonicalCidr(row.cidr),
  })
  return { events, restrictions, modules, isCut, rules: rules.map(canonical), deltas: deltas.map(canonical) }
}

const toPastEvent = ({ created_at, ...row }: EventRow): PastEvent => ({ ...row, at: Date.parse(created_at) })

const toRule = (row: { allow: boolean | null; expires_at: string | null }, id: string | null): PastRule => ({
  action: row.allow ? 'allow' : 'deny',
  expiresAt: row.expires_at === null ? null : Date.parse(row.expires_at),
  id,
})

/** What decides about the address now. */
function worldOf({ restrictions, modules, rules = [] }: Past, { type, ip, target }: Refused): World {
  const around = new Set(rangesOf(ip))
  const byPolicy = new Map<string, Map<string, PastRule>>()
  for (const row of rules) {
    if (row.cidr === null || !around.has(row.cidr)) continue
    const policy = toId('ipp', row.ip_policy_id)
    const known = byPolicy.get(policy) ?? new Map<string, PastRule>()
    byPolicy.set(policy, known.set(row.cidr, toRule(row, toId('ipr', row.id))))
  }
  const ofType = restrictions.filter((each) => each.type === type)
  const module = modules.find(({ edge_id }) => edge_id === target?.id)
  return {
    rules: byPolicy,
    unknown: new Map(),
    restrictions: new Map(
      ofType.map(({ id, enforced, policies }) => [
        toId('ipx', id),
        { enforced, policies: policies.map((policy) => toId('ipp', policy.id)) },
      ]),
    ),
    module: module?.policy_ids.map((id) => toId('ipp', id)),
  }
}

function subjectOf({ deltas = [], events }: Past, { type, ip, target }: Refused): Subject {
  const around = new Set(rangesOf(ip))
  const byOperation = Map.groupBy(deltas, ({ operation_id }) => operation_id)
  return {
    type,
    target: target?.publicId ?? null,
    isAround: (cidr) => around.has(cidr),
    deltaOf({ operation_id, resource_id }): RuleSetDelta | undefined {
      const ofPolicy = ({ ip_policy_id: id }: { ip_policy_id: Uuid | null }) =>
        id === null || toId('ipp', id) === resource_id
      const rows = byOperation.get(operation_id)?.filter(ofPolicy)
      // If a change set changed a policy's rules twice, the record does not tell the two changes apart.
      const isOne =
        events.filter((each) => each.operation_id === operation_id && each.resource_id === resource_id).length === 1
      if (!rows?.length || !isOne) return undefined
      const removed = new Map<string, PastRule>()
      const added: string[] = []
      for (const { part, cidr, ...rule } of rows) {
        if (cidr === null || !around.has(cidr)) continue
        if (part === 'added') added.push(cidr)
        else removed.set(cidr, toRule(rule, null))
      }
      return { removed, added }
    },
  }
}
