import type { DbPool } from '../../db/pool.ts'
import { transaction } from '../../db/transaction.ts'
import type { Caller } from '../../identity/caller.ts'
import type { Id } from '../../kernel/ids.ts'
import type { TextRuleSet } from './rule_text.ts'
import { everyRuleOf } from './store.ts'

/**
 * A rule set that was sent as text, as the JSON that does the same. A line that says nothing of metadata keeps it, so the
 * metadata that there is goes with it.
 */
export async function ruleTextToJson(
  { db, caller, params }: { db: DbPool; caller: Caller; params: Record<string, Id> },
  body: unknown,
): Promise<object> {
  const kept = new Map<string, string>()
  await transaction(db, async (tx) => {
    for await (const batch of everyRuleOf(tx, caller, params.id as Id<'ipp'>))
      for (const { action, cidr, metadata } of batch) if (metadata !== null) kept.set(`${action} ${cidr}`, metadata)
  })
  return {
    rules: (body as TextRuleSet).rules.map(
      ({ action, cidr, description, expires_at, metadata: sent, keepsMetadata }) => {
        const metadata = keepsMetadata ? (kept.get(`${action} ${cidr}`) ?? null) : sent
        return {
          ...{ action, cidr },
          ...(description !== null && { description }),
          ...(metadata !== null && { metadata }),
          ...(expires_at !== null && { expires_at }),
        }
      },
    ),
  }
}
