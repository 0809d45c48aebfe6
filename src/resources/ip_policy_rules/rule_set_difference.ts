import { giveWay } from '../../kernel/give_way.ts'
import { sliceSize } from './rule_set.ts'
import type { SentRule } from './rule_text.ts'
import type { NewRule } from './store.ts'

/** `replaced`: what `changed` stands for, as it was. A rule with another action is another rule: removed and added. */
export type RuleSetDifference = {
  readonly removed: NewRule[]
  readonly replaced: NewRule[]
  readonly changed: SentRule[]
  readonly added: SentRule[]
}

/** All stored rules of a policy, some at a time and each once, compared with those that are to be there. */
export async function compareRules(
  stored: AsyncIterable<readonly NewRule[]>,
  sent: readonly SentRule[],
): Promise<RuleSetDifference> {
  const sentFor = new Map<string, SentRule>()
  for (let start = 0; start < sent.length; start += sliceSize) {
    for (const rule of sent.slice(start, start + sliceSize)) sentFor.set(rule.cidr, rule)
    await giveWay()
  }
  const difference: RuleSetDifference = { removed: [], replaced: [], changed: [], added: [] }
  for await (const batch of stored) {
    for (const rule of batch) {
      const same = sentFor.get(rule.cidr)
      if (same?.action !== rule.action) {
        difference.removed.push(rule)
        continue
      }
      sentFor.delete(rule.cidr)
      if (isEqual(rule, same)) continue
      difference.replaced.push(rule)
      difference.changed.push(same)
    }
    await giveWay()
  }
  for (const rule of sentFor.values()) difference.added.push(rule)
  return difference
}

const isEqual = (stored: NewRule, sent: SentRule): boolean =>
  stored.description === sent.description &&
  stored.expires_at === sent.expires_at &&
  (sent.keepsMetadata || stored.metadata === sent.metadata)
