import type { Db } from '../../db/pool.ts'
import type { Caller } from '../../identity/caller.ts'
import { systemClock } from '../../kernel/clock.ts'
import { forbidden, invalidField } from '../../kernel/errors.ts'
import { type Id, toId } from '../../kernel/ids.ts'
import { canonicalCidr } from '../../kernel/ip/canonical_cidr.ts'
import { canonicalExpiry } from '../../kernel/time.ts'
import { newAnnotations, patchedAnnotations, shownAnnotations } from '../../operations/annotations.ts'
import { createRoute, deleteRoute, updateRoute } from '../../operations/change_routes.ts'
import { decisionGuard } from '../../operations/decision_change.ts'
import { getRoute, listRoute } from '../../operations/read_routes.ts'
import type { Resource } from '../../operations/resource.ts'
import { isAttachedToRestriction, raiseIpPolicyRevision } from '../ip_policies/store.ts'
import { IpPolicyRule, IpPolicyRuleCreate, IpPolicyRuleQuery, IpPolicyRuleUpdate } from './schema.ts'
import { deleteRule, findRule, type IpPolicyRuleRow, insertRule, listRules, updateRule } from './store.ts'

function toIpPolicyRule(row: IpPolicyRuleRow, uri: (path: string) => string): IpPolicyRule {
  const id = toId('ipr', row.id)
  const policyId = toId('ipp', row.ip_policy_id)
  return {
    id,
    uri: uri(`/ip_policy_rules/${id}`),
    created_at: row.created_at,
    ...shownAnnotations(row),
    cidr: canonicalCidr(row.cidr),
    action: row.action,
    ip_policy: { id: policyId, uri: uri(`/ip_policies/${policyId}`) },
    ...(row.expires_at !== null && {
      expires_at: row.expires_at,
      expired: Date.parse(row.expires_at) <= systemClock(),
    }),
  }
}

/**
 * To be called before any change of a policy's rules. Members keep their own allow-lists, but what an IP restriction
 * decides is for admins, and its policies' rules are what it decides. Resolves to false when there is no such policy.
 */
export async function beginRuleChange(tx: Db, caller: Caller, policyId: Id<'ipp'>): Promise<boolean> {
  if (!(await raiseIpPolicyRevision(tx, caller, policyId))) return false
  await permitRuleChange(tx, caller, policyId)
  return true
}

/** Holds only as long as the policy's row is held, as it is after `beginRuleChange`. */
export async function permitRuleChange(db: Db, caller: Caller, policyId: Id<'ipp'>): Promise<void> {
  if (caller.role !== 'admin' && (await isAttachedToRestriction(db, caller, policyId)))
    throw forbidden('This IP policy is attached to an IP restriction: only an admin may change its rules.')
}

const rules: Resource<{ id: 'ipr' }, IpPolicyRuleRow, typeof IpPolicyRule> = {
  name: 'ip_policy_rules',
  path: '/ip_policy_rules',
  params: { id: 'ipr' },
  shape: IpPolicyRule,
  view: toIpPolicyRule,
  find: findRule,
  // Time makes it true, not a change: an ETag with it would be out of date though nobody touched the rule.
  stableFields: ({ expired: _, ...rule }) => rule,
  records: ({ ip_policy_id }) => [`policy.${toId('ipp', ip_policy_id)}`],
  guard: decisionGuard,
}

const beginChange = (tx: Db, caller: Caller, rule: IpPolicyRuleRow) =>
  beginRuleChange(tx, caller, toId('ipp', rule.ip_policy_id))

export const ipPolicyRuleRoutes = [
  createRoute(rules, {
    access: 'anyone',
    body: IpPolicyRuleCreate,
    errors: ['ERR_FORBIDDEN', 'ERR_CIDR_TAKEN', 'ERR_SELF_LOCKOUT'],
    async insert(tx, { caller, body }) {
      const fields = {
        cidr: canonicalCidr(body.cidr),
        action: body.action,
        expires_at: canonicalExpiry(body.expires_at),
        ...newAnnotations(body),
      }
      if (!(await beginRuleChange(tx, caller, body.ip_policy_id))) {
        throw invalidField('ip_policy_id', 'must be an IP policy of this account')
      }
      return insertRule(tx, caller, body.ip_policy_id, fields)
    },
  }),
  getRoute(rules, { access: 'anyone' }),
  listRoute(rules, { access: 'anyone', field: 'ip_policy_rules', query: IpPolicyRuleQuery, select: listRules }),
  updateRoute(rules, {
    access: 'anyone',
    body: IpPolicyRuleUpdate,
    errors: ['ERR_FORBIDDEN', 'ERR_CIDR_TAKEN', 'ERR_SELF_LOCKOUT'],
    permit: beginChange,
    apply(tx, { caller, body }, before) {
      const cidr = body.cidr === undefined ? before.cidr : canonicalCidr(body.cidr)
      const expires_at = body.expires_at === undefined ? before.expires_at : canonicalExpiry(body.expires_at)
      return updateRule(tx, caller, before.id, { cidr, expires_at, ...patchedAnnotations(before, body) })
    },
  }),
  deleteRoute(rules, {
    access: 'anyone',
    errors: ['ERR_FORBIDDEN', 'ERR_SELF_LOCKOUT'],
    permit: beginChange,
    remove: (tx, { caller, params }) => deleteRule(tx, caller, params.id),
  }),
]
