import { restrictionTypesFor, type Traffic } from '../../auth/caller.ts'
import type { Judge, Judgement } from '../../auth/judge.ts'
import type { Admission, Call } from '../../http/answer.ts'
import type { Clock } from '../../kernel/clock.ts'
import { toId, toUuid } from '../../kernel/ids.ts'
import { formatAddress } from '../../kernel/ip/address.ts'
import type { Outcome } from './counts.ts'
import type { Tally } from './tally.ts'

/** Judges a call, by token or by cookie: refused by the first enforced restriction that denies it, warned by each unenforced one. */
export function createAdmission(judge: Judge, tally: Tally, clock: Clock, observe: (outcome: Outcome) => void) {
  return async ({ caller, source, operation, operationId }: Call): Promise<Admission> => {
    const denials: (Judgement & { type: Traffic })[] = []
    for (const type of restrictionTypesFor(caller))
      for (const judgement of await judge(caller, type, source))
        if (!judgement.allowed) denials.push({ ...judgement, type })
    const refusal = denials.find(({ enforced }) => enforced)
    const warnings = denials.filter(({ enforced }) => !enforced)
    const sourceIp = source && formatAddress(source)
    const at = clock()
    const hit = (restrictionId: (typeof denials)[number]['restrictionId'], outcome: Outcome) => {
      observe(outcome)
      if (sourceIp) tally.count({ restrictionId, sourceIp, outcome, apiKeyId: caller.apiKeyId, at })
    }
    for (const { restrictionId } of warnings) hit(restrictionId, 'warned')
    if (refusal) {
      hit(refusal.restrictionId, 'refused')
      tally.refused({
        account_id: caller.accountId,
        id: toUuid(operationId),
        at,
        type: refusal.type,
        operation,
        source_ip: sourceIp ?? null,
        api_key_id: caller.apiKeyId,
        ip_restriction_id: refusal.restrictionId,
        ip_policy_id: refusal.policyId ?? null,
        ip_policy_rule_id: refusal.ruleId ?? null,
      })
    }
    return {
      ...(refusal && { refusedBy: toId('ipx', refusal.restrictionId), refusedType: refusal.type }),
      warnedBy: warnings.map(({ restrictionId }) => toId('ipx', restrictionId)),
    }
  }
}
