import type { RestrictionType } from '../../access/policies.ts'
import { refusalIn, warningsIn } from '../../access/refusal.ts'
import type { Db } from '../../db/pool.ts'
import type { Handling } from '../../http/route.ts'
import type { Caller } from '../../identity/caller.ts'
import { forbidden, invalidField } from '../../kernel/errors.ts'
import { toUuid, type Uuid } from '../../kernel/ids.ts'
import { type Address, formatAddress, parseAddress } from '../../kernel/ip/address.ts'
import { canonicalCidr } from '../../kernel/ip/canonical_cidr.ts'
import { parseRfc3339 } from '../../kernel/time.ts'
import { findModulePolicies, findTarget } from '../edges/store.ts'
import { refsOf } from '../edges/view.ts'
import { findRanges } from '../ip_policy_rules/store.ts'
import { decidedBy, refTo } from '../ip_restrictions/decided_by.ts'
import { type Decidable, decidedAt, type Past, type PastPolicyVerdict } from './past.ts'
import type { CheckStep, IpCheck, IpCheckResult } from './schema.ts'

type UriOf = (path: string) => string
type Checking = Pick<Handling<unknown, unknown, IpCheck>, 'db' | 'caller' | 'evaluate' | 'body' | 'uri' | 'clock'>

/** Decides exactly as the API or an edge would, and explains the decision. */
export async function checkAddress({ db, caller, evaluate, body, uri, clock }: Checking): Promise<IpCheckResult> {
  const { type = 'endpoints', ip } = body
  const address = parseAddress(ip)
  const { target, module, decisions } =
    body.at !== undefined && address
      ? await decidedThen({ db, caller, body, clock }, type, address, body.at)
      : await decidedNow({ db, caller, evaluate, body }, type, address)

  const rangeOf = await rangesOf(db, caller, [...(module ? [module] : []), ...decisions])
  const policiesOf = ({ explain }: Explained) => explain().map((each) => toCheckedPolicy(each, rangeOf, uri))
  const steps: CheckStep[] = decisions.map((decision) => ({
    by: 'restriction',
    ip_restriction: refTo('ipx', decision.restrictionId, uri),
    target: null,
    enforced: decision.enforced,
    allowed: decision.allowed,
    policies: policiesOf(decision),
  }))
  // Same order as at the edge: its own policies come first.
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
    // An unparsable address is denied even without restrictions, because the caller is about to let someone in.
    allowed: address !== undefined && refusing === undefined,
    reason: address ? reasonOf(refusing, steps) : 'This is not an IP address, and what cannot be read is refused.',
    decided_by: refusalIn(restrictions) ?? null,
    restrictions,
    steps,
  }
}

async function decidedNow(
  { db, caller, evaluate, body }: Pick<Checking, 'db' | 'caller' | 'evaluate' | 'body'>,
  type: RestrictionType,
  address: Address | undefined,
) {
  const target = await targetOf(db, caller, body)
  const module = target && (await evaluate.byModule(caller, () => findModulePolicies(db, caller, target.id), address))
  return { target, module, decisions: await evaluate(caller, type, address) }
}

/** Also answers for targets that have been deleted since. */
async function decidedThen(
  { db, caller, body, clock }: Pick<Checking, 'db' | 'caller' | 'body' | 'clock'>,
  type: RestrictionType,
  address: Address,
  text: string,
): Promise<Past> {
  const at = parseRfc3339(text) ?? Number.NaN
  if (!(at <= clock())) throw invalidField('at', 'must not be in the future')
  if (caller.role !== 'admin')
    throw forbidden('Only admins can ask about an earlier time, because the answer comes from the audit log.')
  const { edge_id, route_id } = body
  if (route_id === undefined && edge_id?.startsWith('edghts_'))
    throw invalidField('route_id', 'is required for an HTTPS edge, because its routes decide')
  const past = await decidedAt(db, caller, { type, target: route_id ?? edge_id, address, at })
  const { kind, parent_id } = past.target ?? {}
  if (route_id !== undefined && edge_id !== undefined && (kind !== 'route' || parent_id !== toUuid(edge_id)))
    throw invalidField('route_id', 'must be a route of this edge')
  return past
}

/** The TCP edge or route in question. Other accounts' ids are treated as missing. */
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

type Explained = { readonly explain: () => PastPolicyVerdict[] }

async function rangesOf(db: Db, caller: Caller, verdicts: readonly Explained[]): Promise<Map<Uuid, string>> {
  const ids = verdicts.flatMap(({ explain }) => explain()).flatMap(({ ruleId }) => ruleId ?? [])
  const found = ids.length ? await findRanges(db, caller, ids) : []
  return new Map(found.map(({ id, cidr }) => [id, canonicalCidr(cidr)]))
}

const toCheckedPolicy = (
  { policyId, action, ruleId, cidr }: PastPolicyVerdict,
  rangeOf: Map<Uuid, string>,
  uri: UriOf,
): CheckStep['policies'][number] => ({
  ip_policy: refTo('ipp', policyId, uri),
  action: action ?? null,
  ip_policy_rule: ruleId ? refTo('ipr', ruleId, uri) : null,
  cidr: cidr ?? (ruleId && rangeOf.get(ruleId)) ?? null,
})

const nameOf = ({ ip_restriction, target }: CheckStep) => ip_restriction?.id ?? target?.id ?? ''

function reasonOf(refusing: CheckStep | undefined, steps: readonly CheckStep[]): string {
  if (refusing) {
    const rule = refusing.policies.find(({ action }) => action === 'deny')?.ip_policy_rule
    if (rule) return `${nameOf(refusing)} refuses it by the rule ${rule.id}.`
    const former = refusing.policies.find(({ action }) => action === 'deny')
    return former
      ? `${nameOf(refusing)} refuses it by the rule deny ${former.cidr} of ${former.ip_policy.id}, which was replaced since.`
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
