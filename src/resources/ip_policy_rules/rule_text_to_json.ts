import type { DbPool } from '../../db/pool.ts'
import { transaction } from '../../db/transaction.ts'
import type { Caller } from '../../identity/caller.ts'
import type { Id } from '../../kernel/ids.ts'
import type { TextRuleSet } from './rule_text.ts'
import { everyRuleOf } from './store.ts'

/**
 * Converts a text rule set to equivalent JSON. Lines without metadata keep it, so the JSON includes the current
 * metadata.
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
