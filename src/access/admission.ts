import { type Caller, restrictionTypesFor, type Traffic } from '../identity/caller.ts'
import type { Clock } from '../kernel/clock.ts'
import { type Id, toId, toUuid } from '../kernel/ids.ts'
import { type Address, formatAddress } from '../kernel/ip/address.ts'
import type { Evaluate, RestrictionDecision } from './decisions.ts'
import type { Outcome } from './evidence/counts.ts'
import type { HitBuffer } from './evidence/hit_buffer.ts'

/** A call of the API, as far as IP restrictions are concerned. */
export type Call = { caller: Caller; source: Address | undefined; operation: string; operationId: Id<'op'> }
export type Admission = { refusedBy?: Id<'ipx'>; refusedType?: Traffic; warnedBy: readonly Id<'ipx'>[] }

/** Judges a call, by token or by cookie: refused by the first enforced restriction that denies it, warned by each unenforced one. */
export function createAdmission(
  evaluate: Evaluate,
  hitBuffer: HitBuffer,
  clock: Clock,
  observe: (outcome: Outcome) => void,
) {
  return async ({ caller, source, operation, operationId }: Call): Promise<Admission> => {
    const denials: (RestrictionDecision & { type: Traffic })[] = []
    for (const type of restrictionTypesFor(caller))
      for (const decision of await evaluate(caller, type, source))
        if (!decision.allowed) denials.push({ ...decision, type })
    const refusal = denials.find(({ enforced }) => enforced)
    const warnings = denials.filter(({ enforced }) => !enforced)
    const sourceIp = source && formatAddress(source)
    const at = clock()
    const hit = (restrictionId: (typeof denials)[number]['restrictionId'], outcome: Outcome) => {
      observe(outcome)
      if (sourceIp) hitBuffer.count({ restrictionId, sourceIp, outcome, apiKeyId: caller.apiKeyId, at })
    }
    for (const { restrictionId } of warnings) hit(restrictionId, 'warned')
    if (refusal) {
      hit(refusal.restrictionId, 'refused')
      hitBuffer.refused({
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
