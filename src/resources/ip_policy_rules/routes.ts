import type { Db } from '../../db/pool.ts'
import type { Caller } from '../../identity/caller.ts'
import { invalidField } from '../../kernel/errors.ts'
import { toId } from '../../kernel/ids.ts'
import { canonicalCidr } from '../../kernel/ip/canonical_cidr.ts'
import { canonicalExpiry } from '../../kernel/time.ts'
import { newAnnotations, patchedAnnotations } from '../../operations/annotations.ts'
import { createRoute, deleteRoute, updateRoute } from '../../operations/change_routes.ts'
import { ruleGuard } from '../../operations/decision_change.ts'
import { getRoute, listRoute } from '../../operations/read_routes.ts'
import type { Resource } from '../../operations/resource.ts'
import { beginRuleChange, changeAttached } from './rules.ts'
import { IpPolicyRule, IpPolicyRuleCreate, IpPolicyRuleQuery, IpPolicyRuleUpdate } from './schema.ts'
import { deleteRule, findRule, type IpPolicyRuleRow, insertRule, listRules, updateRule } from './store.ts'
import { toIpPolicyRule } from './view.ts'

const rules: Resource<{ id: 'ipr' }, IpPolicyRuleRow, typeof IpPolicyRule> = {
  name: 'ip_policy_rules',
  quota: 'ip_policy_rules',
  path: '/ip_policy_rules',
  params: { id: 'ipr' },
  shape: IpPolicyRule,
  view: toIpPolicyRule,
  find: findRule,
  // Expiring is not a change: an ETag that included it would become stale by itself.
  stableFields: ({ expired: _, ...rule }) => rule,
  records: ({ ip_policy_id }) => [`policy.${toId('ipp', ip_policy_id)}`],
  denies: ({ action, cidr }) => (action === 'deny' ? cidr : undefined),
  guard: ruleGuard,
}

const beginChange = (tx: Db, caller: Caller, rule: IpPolicyRuleRow, body?: IpPolicyRuleUpdate) => {
  const cidrs = [rule.cidr, ...(body?.cidr === undefined ? [] : [canonicalCidr(body.cidr)])]
  return beginRuleChange(tx, caller, toId('ipp', rule.ip_policy_id), cidrs)
}

export const ipPolicyRuleRoutes = [
  createRoute(rules, {
    access: 'anyone',
    body: IpPolicyRuleCreate,
    adminsOnly: changeAttached,
    errors: ['ERR_CIDR_TAKEN'],
    async insert(tx, { caller, body }) {
      const fields = {
        cidr: canonicalCidr(body.cidr),
        action: body.action,
        expires_at: canonicalExpiry(body.expires_at),
        ...newAnnotations(body),
      }
      if (!(await beginRuleChange(tx, caller, body.ip_policy_id, [fields.cidr]))) {
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
    adminsOnly: changeAttached,
    errors: ['ERR_CIDR_TAKEN'],
    permit: beginChange,
    apply(tx, { caller, body }, before) {
      const cidr = body.cidr === undefined ? before.cidr : canonicalCidr(body.cidr)
      const expires_at = body.expires_at === undefined ? before.expires_at : canonicalExpiry(body.expires_at)
      return updateRule(tx, caller, before.id, { cidr, expires_at, ...patchedAnnotations(before, body) })
    },
  }),
  deleteRoute(rules, {
    access: 'anyone',
    adminsOnly: changeAttached,
    permit: (tx, caller, rule) => beginChange(tx, caller, rule),
    remove: (tx, { caller, params }) => deleteRule(tx, caller, params.id),
  }),
]
