import { yieldToEventLoop } from '../../kernel/flow/yield_to_event_loop.ts'
import type { NewRules } from './rule_set.ts'
import type { SentRule } from './rule_text.ts'
import type { NewRule } from './store.ts'

/** `replaced`: the old versions of `changed`. A rule with another action counts as removed and added. */
export type RuleSetDifference = {
  readonly removed: NewRule[]
  readonly replaced: NewRule[]
  readonly changed: SentRule[]
  readonly added: SentRule[]
}

/** Compares the stored rules of a policy, read in batches, with the wanted ones. */
export async function compareRules(
  stored: AsyncIterable<readonly NewRule[]>,
  { rules, placeOf }: NewRules,
): Promise<RuleSetDifference> {
  const removed: NewRule[] = []
  const replaced: NewRule[] = []
  const changed: SentRule[] = []
  const isStored = new Uint8Array(rules.length)
  for await (const batch of stored) {
    for (const rule of batch) {
      const place = placeOf.get(rule.cidr) ?? -1
      const sent = rules[place]
      if (sent?.action !== rule.action) {
        removed.push(rule)
        continue
      }
      isStored[place] = 1
      if (isEqual(rule, sent)) continue
      replaced.push(rule)
      changed.push(sent)
    }
    await yieldToEventLoop()
  }
  return { removed, replaced, changed, added: rules.filter((_, place) => !isStored[place]) }
}

const isEqual = (stored: NewRule, sent: SentRule): boolean =>
  stored.description === sent.description &&
  stored.expires_at === sent.expires_at &&
  (sent.keepsMetadata || stored.metadata === sent.metadata)
