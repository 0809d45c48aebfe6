import { route } from '../../http/route.ts'
import { notFound } from '../../kernel/errors.ts'
import { toId, toUuid } from '../../kernel/ids.ts'
import { canonicalCidr } from '../../kernel/ip/canonical_cidr.ts'
import { toPage } from '../../kernel/paging.ts'
import { canonicalExpiry } from '../../kernel/time.ts'
import { record } from '../../operations/change.ts'
import { someRulesGuard } from '../../operations/decision_change.ts'
import { confirmUnusual } from '../../operations/unusual_changes.ts'
import { beginRuleChange, changeAttached } from '../ip_policy_rules/rules.ts'
import { type CoveredRule, coveredRules } from './coverage_cache.ts'
import {
  type RuleEvidence,
  RuleEvidenceList,
  RuleEvidenceQuery,
  RulesRemove,
  RulesRemoved,
  RulesRemoveQuery,
} from './schema.ts'
import { type EvidenceRow, findRevision, listEvidence, removeRules } from './store.ts'

export const ruleEvidenceRoutes = [
  route({
    operation: 'ip_policies.rule_evidence',
    summary: 'List how often each rule of an IP policy decided, newest first, and which rules can never decide',
    method: 'GET',
    path: '/ip_policies/:id/rule_evidence',
    params: { id: 'ipp' },
    query: RuleEvidenceQuery,
    success: 200,
    response: RuleEvidenceList,
    access: 'anyone',
    heavy: 'report',
    async handle({ db, caller, params, query, clock, edges, uri }) {
      const now = clock()
      const policy = await findRevision(db, caller, params.id)
      const covered = policy && (await coveredRules(db, caller.accountId, toUuid(params.id), policy.revision, now))
      if (!covered) throw notFound('ipp')
      const only = query.covered && [...covered].filter(([, { kind }]) => kind === query.covered).map(([id]) => id)
      const unusedSince = query.unused_since && canonicalExpiry(query.unused_since)
      const rows = await listEvidence(
        db,
        caller,
        params.id,
        { ...query, ...(unusedSince && { unused_since: unusedSince }) },
        only,
        now,
      )
      const { items, ...page } = toPage(
        rows.map((row) => toEvidence(row, covered.get(row.id), uri)),
        query,
        uri(`/ip_policies/${params.id}/rule_evidence`),
      )
      const uncounted = edges.all().filter(({ live, countsRules }) => !live || !countsRules)
      return { body: { rule_evidence: items, nodes_not_counting: uncounted.length, ...page } }
    },
  }),
  route({
    operation: 'ip_policies.remove_rules',
    summary: 'Remove several rules of an IP policy in one change',
    method: 'POST',
    path: '/ip_policies/:id/remove_rules',
    params: { id: 'ipp' },
    query: RulesRemoveQuery,
    body: RulesRemove,
    success: 200,
    response: RulesRemoved,
    access: 'anyone',
    adminsOnly: changeAttached,
    errors: [...someRulesGuard.errors, 'ERR_UNUSUAL_CHANGE'],
    async handle(request) {
      const { caller, params, body, uri } = request
      return someRulesGuard.transaction(request, async (tx) => {
        if (!(await beginRuleChange(tx, caller, params.id))) throw notFound('ipp')
        const counts = await removeRules(tx, request.origin, params.id, body.rule_ids)
        const { rules, removed } = counts
        const extent = { before: rules + removed, added: 0, removed }
        const judged = confirmUnusual(request, [{ of: 'ip_policy_rules', resource: params.id, ...extent }])
        const shown = { ip_policy: { id: params.id, uri: uri(`/ip_policies/${params.id}`) }, ...counts }
        if (removed === 0) return { body: shown }
        const generation = await record(tx, request.origin, {
          resourceId: params.id,
          before: { rules: rules + removed },
          after: { ...counts, rule_ids: body.rule_ids, ...judged },
          records: [`policy.${params.id}`],
        })
        return { body: shown, generation }
      })
    },
  }),
]

function toEvidence(row: EvidenceRow, covered: CoveredRule | undefined, uri: (path: string) => string): RuleEvidence {
  const id = toId('ipr', row.id)
  const { cidr, description, ...counts } = row
  return {
    ...counts,
    id,
    uri: uri(`/ip_policy_rules/${id}`),
    cidr: canonicalCidr(cidr),
    ...(description !== null && { description }),
    covered: covered?.kind ?? null,
    covered_by: covered?.by.map((each) => toId('ipr', each)) ?? [],
    covered_by_count: covered?.count ?? 0,
  }
}
