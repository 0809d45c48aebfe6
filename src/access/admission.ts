import { type Caller, restrictionTypesFor, type Traffic } from '../identity/caller.ts'
import type { Clock } from '../kernel/clock.ts'
import { type Id, toId, toUuid, type Uuid } from '../kernel/ids.ts'
import { type Address, formatAddress } from '../kernel/ip/address.ts'
import type { Evaluate, RestrictionDecision } from './decisions.ts'
import type { Outcome } from './evidence/counts.ts'
import type { HitBuffer } from './evidence/hit_buffer.ts'
import { noteOutcomes, type OutcomeBuffer } from './evidence/outcome_buffer.ts'
import type { RuleHitBuffer } from './evidence/rule_hit_buffer.ts'
import { refusalIn, warningsIn } from './refusal.ts'

export type Call = { caller: Caller; source: Address | undefined; operation: string; operationId: Id<'op'> }
export type Admission = { refusedBy?: Id<'ipx'>; refusedType?: Traffic; warnedBy: readonly Id<'ipx'>[] }

export type AdmissionParts = {
  readonly evaluate: Evaluate
  readonly hitBuffer: HitBuffer
  readonly ruleHitBuffer: RuleHitBuffer
  readonly outcomeBuffer: OutcomeBuffer
  readonly clock: Clock
}

/** Decisions of all restrictions that the caller must pass. */
export async function decide(evaluate: Evaluate, caller: Caller, source: Address | undefined) {
  const decisions: (RestrictionDecision & { type: Traffic })[] = []
  for (const type of restrictionTypesFor(caller))
    for (const decision of await evaluate(caller, type, source)) decisions.push({ ...decision, type })
  return { decisions, refusal: refusalIn(decisions), warnings: warningsIn(decisions) }
}

/** Decides whether restrictions let a call in, and counts the outcome. */
export async function admit(
  { evaluate, hitBuffer, ruleHitBuffer, outcomeBuffer, clock }: AdmissionParts,
  call: Call,
): Promise<Admission> {
  const { caller, source, operation, operationId } = call
  const { decisions, refusal, warnings } = await decide(evaluate, caller, source)
  const sourceIp = source && formatAddress(source)
  const at = clock()
  const hit = (restrictionId: Uuid, outcome: Outcome) => {
    if (sourceIp) hitBuffer.count({ restrictionId, sourceIp, outcome, apiKeyId: caller.apiKeyId, at })
  }
  noteOutcomes(outcomeBuffer, caller, sourceIp, decisions, at)
  for (const { ruleId, allowed, enforced } of decisions) {
    const outcome = allowed ? 'allowed' : enforced ? 'refused' : 'warned'
    if (ruleId) ruleHitBuffer.count({ accountId: caller.accountId, ruleId, outcome, at })
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
