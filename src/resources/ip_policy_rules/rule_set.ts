import { invalidField } from '../../kernel/errors.ts'
import { yieldToEventLoop } from '../../kernel/flow/yield_to_event_loop.ts'
import { toId } from '../../kernel/ids.ts'
import { canonicalCidr } from '../../kernel/ip/canonical_cidr.ts'
import { canonicalExpiry } from '../../kernel/time.ts'
import { newAnnotations, shownAnnotations } from '../../operations/annotations.ts'
import type { SentRule, TextRuleSet } from './rule_text.ts'
import type { RuleSet, RuleSetShown } from './schema.ts'
import type { IpPolicyRuleRow } from './store.ts'

/** Rules per slice, a few milliseconds of work before yielding to other requests. */
export const sliceSize = 1_000

/** `placeOf`: position of the rule of a range. */
export type NewRules = { readonly rules: readonly SentRule[]; readonly placeOf: ReadonlyMap<string, number> }

/** Canonicalizes ranges and refuses duplicates. */
export async function toNewRules(set: RuleSet | TextRuleSet): Promise<NewRules> {
  const lineOf = 'lineOf' in set ? set.lineOf : undefined
  const place = (index: number) => (lineOf ? `line ${lineOf[index]}` : `rules[${index}].cidr`)
  const placeOf = new Map<string, number>()
  const rules = 'lineOf' in set ? set.rules : await Array.fromAsync(set.rules, fromJson)
  for (const [index, { cidr }] of rules.entries()) {
    if (index % sliceSize === sliceSize - 1) await yieldToEventLoop()
    const first = placeOf.get(cidr)
    if (first !== undefined) throw invalidField(place(index), `repeats the range of ${place(first)} (${cidr})`)
    placeOf.set(cidr, index)
  }
  return { rules, placeOf }
}

async function fromJson(rule: RuleSet['rules'][number], index: number): Promise<SentRule> {
  if (index % sliceSize === sliceSize - 1) await yieldToEventLoop()
  return {
    cidr: canonicalCidr(rule.cidr),
    action: rule.action,
    expires_at: canonicalExpiry(rule.expires_at),
    ...newAnnotations(rule),
    keepsMetadata: false,
  }
}

export const toRuleOfSet = (row: IpPolicyRuleRow): RuleSetShown['rules'][number] => ({
  id: toId('ipr', row.id),
  cidr: canonicalCidr(row.cidr),
  action: row.action,
  ...shownAnnotations(row),
  ...(row.expires_at !== null && { expires_at: row.expires_at }),
})

/** Writes `{"ip_policy_id": …, "rules": [ … ]}` in slices. */
export function* ruleSetSlices({ ip_policy_id, rules }: RuleSetShown): Generator<string> {
  yield `{"ip_policy_id":${JSON.stringify(ip_policy_id)},"rules":[`
  for (let start = 0; start < rules.length; start += sliceSize) {
    const slice = rules.slice(start, start + sliceSize).map((rule) => JSON.stringify(rule))
    yield (start > 0 ? ',' : '') + slice.join(',')
  }
  yield ']}'
}
