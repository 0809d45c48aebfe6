import { loadOutline } from '../../access/policies.ts'
import { isRefused } from '../../access/refusal.ts'
import { whatIfWith } from '../../access/what_if.ts'
import { transaction } from '../../db/transaction.ts'
import { route } from '../../http/route.ts'
import { restrictionTypesFor } from '../../identity/caller.ts'
import { rfc3339 } from '../../kernel/clock.ts'
import { notFound } from '../../kernel/errors.ts'
import { yieldToEventLoop } from '../../kernel/flow/yield_to_event_loop.ts'
import { toUuid } from '../../kernel/ids.ts'
import { parseAddress } from '../../kernel/ip/address.ts'
import { canonicalCidr } from '../../kernel/ip/canonical_cidr.ts'
import { parseCidr } from '../../kernel/ip/cidr.ts'
import { type CompiledPolicy, compilePolicyInSlices, type Rule } from '../../kernel/ip/ranges.ts'
import { findIpPolicy } from '../ip_policies/store.ts'
import { toNewRules } from '../ip_policy_rules/rule_set.ts'
import { ruleSetBody } from '../ip_policy_rules/rule_set_routes.ts'
import type { SentRule, TextRuleSet } from '../ip_policy_rules/rule_text.ts'
import { RuleSet } from '../ip_policy_rules/schema.ts'
import { everyRuleOf, type NewRule } from '../ip_policy_rules/store.ts'
import { Impact } from './schema.ts'
import { decidersFor, impactOnModules, impactOnRestrictions } from './traffic.ts'

const weekMs = 7 * 24 * 60 * 60 * 1_000

/** Previews the effect of saving a rule set. Changes nothing. */
export const ipImpactRoutes = [
  route({
    operation: 'ip_policies.impact',
    summary:
      'Preview replacing all rules of an IP policy. Returns how many rules would change, and which addresses of the last week would be newly refused or allowed',
    method: 'POST',
    path: '/ip_policies/:id/impact',
    params: { id: 'ipp' },
    body: RuleSet,
    ...ruleSetBody,
    success: 200,
    response: Impact,
    access: 'anyone',
    openToViewers: true,
    onlyAsks: true,
    heavy: 'rule_set',
    async beforeLargeBody({ db, caller, params }) {
      if (!(await findIpPolicy(db, caller, params.id, false))) throw notFound('ipp')
    },
    async handle({ db, caller, params, body, origin, clock, uri }) {
      const now = clock()
      const since = now - weekMs
      const { rules } = await toNewRules(body as RuleSet | TextRuleSet)
      const counts = await transaction(db, async (tx) => {
        if (!(await findIpPolicy(tx, caller, params.id, false))) throw notFound('ipp')
        return compare(everyRuleOf(tx, caller, params.id), rules)
      })
      const policyId = toUuid(params.id)
      const { restrictions } = await loadOutline(db, caller.accountId)
      const decidersOf = whatIfWith(db, caller, policyId, await compileRules(rules, now), now)
      const question = { db, caller, policyId, since, restrictions, decidersOf, uri }

      const onMyWay = await decidersOf(restrictionTypesFor(caller).flatMap((type) => decidersFor(restrictions, type)))
      const ownAddress = parseAddress(origin.sourceIp ?? '')
      const traffic = [...(await impactOnRestrictions(question)), ...(await impactOnModules(question))]
      return {
        body: {
          ip_policy: { id: params.id, uri: uri(`/ip_policies/${params.id}`) },
          rules: rules.length,
          ...counts,
          refuses_caller: isRefused(onMyWay.after, ownAddress),
          since: rfc3339(since),
          traffic,
        },
      }
    },
  }),
]

/** Counts as a PUT would: a rule with another action is a different rule. */
async function compare(current: ReturnType<typeof everyRuleOf>, sent: readonly SentRule[]) {
  const sentAt = new Map(sent.map((rule) => [rule.cidr, rule]))
  const counts = { added: sent.length, changed: 0, removed: 0, kept: 0 }
  for await (const batch of current) {
    for (const rule of batch) {
      const same = sentAt.get(canonicalCidr(rule.cidr))
      if (same?.action !== rule.action) {
        counts.removed++
        continue
      }
      counts.kept++
      counts.added--
      const isChanged =
        same.description !== rule.description ||
        same.expires_at !== rule.expires_at ||
        (!same.keepsMetadata && same.metadata !== rule.metadata)
      if (isChanged) counts.changed++
    }
  }
  return counts
}

async function compileRules(rules: readonly NewRule[], now: number): Promise<CompiledPolicy> {
  const counting: Rule[] = []
  for (const [index, { cidr: text, action, expires_at }] of rules.entries()) {
    if (index % 2_000 === 1_999) await yieldToEventLoop()
    const { cidr } = parseCidr(text)
    if (cidr && (expires_at === null || Date.parse(expires_at) > now)) counting.push({ cidr, action })
  }
  return compilePolicyInSlices(counting)
}
