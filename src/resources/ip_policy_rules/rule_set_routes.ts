import { transaction } from '../../db/transaction.ts'
import { maxJsonBytes } from '../../http/input/body.ts'
import { route } from '../../http/route.ts'
import { Closed, EdgeChangeQuery } from '../../http/wire.ts'
import { notFound } from '../../kernel/errors.ts'
import { record } from '../../operations/change.ts'
import { ruleSetGuard } from '../../operations/decision_change.ts'
import { ConfirmQuery, confirmUnusual } from '../../operations/unusual_changes.ts'
import { findIpPolicy, noteIpPolicyChange } from '../ip_policies/store.ts'
import { ruleSetSlices, toNewRules, toRuleOfSet } from './rule_set.ts'
import { replaceRules } from './rule_set_store.ts'
import { formatRuleText, readRuleText, ruleTextLimitBytes, type TextRuleSet } from './rule_text.ts'
import { ruleTextToJson } from './rule_text_to_json.ts'
import { beginRuleChange, changeAttached, permitRuleChange } from './rules.ts'
import { RuleSet, RuleSetReplaced, RuleSetShown } from './schema.ts'
import { everyRuleOf } from './store.ts'

/** Small rule sets as JSON, any as text. */
export const ruleSetBody = {
  bodyLimitBytes: maxJsonBytes,
  otherBodies: { 'text/plain': { limitBytes: ruleTextLimitBytes, read: readRuleText, toJson: ruleTextToJson } },
}

const path = '/ip_policies/:id/rules'

export const ruleSetRoutes = [
  route({
    operation: 'ip_policies.rules',
    summary:
      'Get all rules of an IP policy. Returns JSON or, with `Accept: text/plain`, the text format that PUT accepts',
    method: 'GET',
    path,
    params: { id: 'ipp' },
    success: 200,
    response: RuleSetShown,
    otherResponses: { 'text/plain': formatRuleText },
    slices: ruleSetSlices,
    access: 'anyone',
    heavy: 'rule_set',
    async handle({ db, caller, params }) {
      const rules: RuleSetShown['rules'] = []
      const found = await transaction(db, async (tx) => {
        if (!(await findIpPolicy(tx, caller, params.id, false))) return false
        for await (const batch of everyRuleOf(tx, caller, params.id)) {
          for (const row of batch) rules.push(toRuleOfSet(row))
        }
        return true
      })
      if (!found) throw notFound('ipp')
      return { body: { ip_policy_id: params.id, rules } }
    },
  }),
  route({
    operation: 'ip_policies.replace_rules',
    summary:
      'Replace all rules of an IP policy. Accepts JSON, or text lines of the form `allow|deny CIDR # description`',
    method: 'PUT',
    path,
    params: { id: 'ipp' },
    query: Closed({ ...ruleSetGuard.query.properties, ...ConfirmQuery.properties, ...EdgeChangeQuery }),
    body: RuleSet,
    ...ruleSetBody,
    success: 200,
    response: RuleSetReplaced,
    access: 'anyone',
    heavy: 'rule_set',
    async beforeLargeBody({ db, caller, params }) {
      if (!(await findIpPolicy(db, caller, params.id, false))) throw notFound('ipp')
      await permitRuleChange(db, caller, params.id)
    },
    adminsOnly: changeAttached,
    errors: [...ruleSetGuard.errors, 'ERR_QUOTA', 'ERR_UNUSUAL_CHANGE'],
    async handle(request) {
      const { caller, params, body, uri } = request
      const rules = await toNewRules(body as RuleSet | TextRuleSet)
      return ruleSetGuard.transaction(request, async (tx) => {
        if (!(await beginRuleChange(tx, caller, params.id))) throw notFound('ipp')
        const { counts, cidrs, judged } = await replaceRules(tx, request.origin, params.id, rules, {
          quotas: request.settings.quotas,
          beforeWriting: (extent) => confirmUnusual(request, [extent]),
        })
        if (cidrs) await noteIpPolicyChange(tx, caller, params.id, cidrs)
        const { added, changed, removed } = counts
        const body = { ip_policy: { id: params.id, uri: uri(`/ip_policies/${params.id}`) }, ...counts }
        if (!added && !changed && !removed) return { body }
        const generation = await record(tx, request.origin, {
          resourceId: params.id,
          // The event omits the rules, of which there may be a hundred thousand.
          before: { rules: counts.rules - added + removed },
          after: { ...counts, ...judged },
          records: [`policy.${params.id}`],
        })
        return { body, generation }
      })
    },
  }),
]
