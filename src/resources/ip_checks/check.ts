import type { Verdict } from '../../access/decisions.ts'
import { refusalIn, warningsIn } from '../../access/refusal.ts'
import type { Db } from '../../db/pool.ts'
import type { Handling } from '../../http/route.ts'
import type { Caller } from '../../identity/caller.ts'
import { invalidField } from '../../kernel/errors.ts'
import { toUuid, type Uuid } from '../../kernel/ids.ts'
import { formatAddress, parseAddress } from '../../kernel/ip/address.ts'
import { canonicalCidr } from '../../kernel/ip/canonical_cidr.ts'
import { findModulePolicies, findTarget, type Target } from '../edges/store.ts'
import { refsOf } from '../edges/view.ts'
import { findRanges } from '../ip_policy_rules/store.ts'
import { decidedBy, refTo } from '../ip_restrictions/decided_by.ts'
import type { CheckStep, IpCheck, IpCheckResult } from './schema.ts'

type UriOf = (path: string) => string
type Checking = Pick<Handling<unknown, unknown, IpCheck>, 'db' | 'caller' | 'evaluate' | 'body' | 'uri'>

/** Decides as the service itself, or an edge, would, and says why. */
export async function checkAddress({ db, caller, evaluate, body, uri }: Checking): Promise<IpCheckResult> {
  const { type = 'endpoints', ip } = body
  const target = await targetOf(db, caller, body)
  const address = parseAddress(ip)
  const module = target && (await evaluate.byModule(caller, () => findModulePolicies(db, caller, target.id), address))
  const decisions = await evaluate(caller, type, address)

  const rangeOf = await rangesOf(db, caller, [...(module ? [module] : []), ...decisions])
  const policiesOf = ({ explain }: Verdict) => explain().map((each) => toCheckedPolicy(each, rangeOf, uri))
  const steps: CheckStep[] = decisions.map((decision) => ({
    by: 'restriction',
    ip_restriction: refTo('ipx', decision.restrictionId, uri),
    target: null,
    enforced: decision.enforced,
    allowed: decision.allowed,
    policies: policiesOf(decision),
  }))
  // As at the edge: its own policies first.
  if (target && module)
    steps.unshift({
      by: 'module',
      ip_restriction: null,
      target: refsOf(target, uri).target,
      enforced: module.enforced,
      allowed: module.allowed,
      policies: policiesOf(module),
    })
  const restrictions = decisions.map((decision) => {
    const { ip_restriction, ...rest } = decidedBy(decision, uri)
    return { ip_restriction, enforced: decision.enforced, allowed: decision.allowed, ...rest }
  })
  const refusing = refusalIn(steps)
  return {
    type,
    ip: address ? formatAddress(address) : ip,
    // Unreadable input is denied even without a restriction: the caller is about to let someone in.
    allowed: address !== undefined && refusing === undefined,
    reason: address ? reasonOf(refusing, steps) : 'This is not an IP address, and what cannot be read is refused.',
    decided_by: refusalIn(restrictions) ?? null,
    restrictions,
    steps,
  }
}

type Decidable = Target & { kind: 'tcp' | 'route' }

/** The TCP edge or the route that is asked about. Another account's is as one that does not exist. */
async function targetOf(db: Db, caller: Caller, { edge_id, route_id }: IpCheck): Promise<Decidable | undefined> {
  if (edge_id !== undefined) {
    const edge = await findTarget(db, caller, edge_id)
    if (edge?.kind !== (edge_id.startsWith('edgtcp_') ? 'tcp' : 'https'))
      throw invalidField('edge_id', 'must be an edge of this account')
    if (edge.kind === 'tcp' && route_id !== undefined) throw invalidField('route_id', 'must be omitted for a TCP edge')
    if (edge.kind === 'tcp') return edge as Decidable
    if (route_id === undefined)
      throw invalidField('route_id', 'is required for an HTTPS edge, because its routes decide')
  }
  if (route_id === undefined) return undefined
  const found = await findTarget(db, caller, route_id)
  if (found?.kind !== 'route' || (edge_id !== undefined && found.parent_id !== toUuid(edge_id)))
    throw invalidField('route_id', `must be a route of this ${edge_id === undefined ? 'account' : 'edge'}`)
  return found as Decidable
}

async function rangesOf(db: Db, caller: Caller, verdicts: readonly Verdict[]): Promise<Map<Uuid, string>> {
  const ids = verdicts.flatMap(({ explain }) => explain()).flatMap(({ ruleId }) => ruleId ?? [])
  const found = ids.length ? await findRanges(db, caller, ids) : []
  return new Map(found.map(({ id, cidr }) => [id, canonicalCidr(cidr)]))
}

const toCheckedPolicy = (
  { policyId, action, ruleId }: ReturnType<Verdict['explain']>[number],
  rangeOf: Map<Uuid, string>,
  uri: UriOf,
): CheckStep['policies'][number] => ({
  ip_policy: refTo('ipp', policyId, uri),
  action: action ?? null,
  ip_policy_rule: ruleId ? refTo('ipr', ruleId, uri) : null,
  cidr: (ruleId && rangeOf.get(ruleId)) ?? null,
})

const nameOf = ({ ip_restriction, target }: CheckStep) => ip_restriction?.id ?? target?.id ?? ''

function reasonOf(refusing: CheckStep | undefined, steps: readonly CheckStep[]): string {
  if (refusing) {
    const rule = refusing.policies.find(({ action }) => action === 'deny')?.ip_policy_rule
    return rule
      ? `${nameOf(refusing)} refuses it by the rule ${rule.id}.`
      : `${nameOf(refusing)} refuses it because no rule of its policies allows it.`
  }
  const warnings = warningsIn(steps)
  if (warnings.length)
    return `It is let through with a warning: ${warnings.map(nameOf).join(', ')} would refuse it if enforced.`
  if (steps.length === 0) return 'No restriction of this type exists, so every address is let through.'
  return steps[0]?.by === 'module'
    ? 'The module and every restriction of this type allow it.'
    : 'Every restriction of this type allows it.'
}
