import { loadPolicyRules, ruleIdAt } from '../../access/policies.ts'
import type { DbPool } from '../../db/pool.ts'
import type { Uuid } from '../../kernel/ids.ts'
import { type CoverageKind, findCoveredInSlices } from '../../kernel/ip/coverage.ts'

export type CoveredRule = { kind: CoverageKind; by: Uuid[]; count: number }
type Found = { revision: number; validUntil: number; covered: ReadonlyMap<Uuid, CoveredRule> }

/** Fits a few large policies or many small ones: clients request consecutive pages of a list. */
const maxRemembered = 50_000
const remembered = new Map<Uuid, Found>()

/** Rules of a policy that others cover now. Undefined if the policy was deleted. */
export async function coveredRules(db: DbPool, accountId: Uuid, policyId: Uuid, revision: number, now: number) {
  const known = remembered.get(policyId)
  if (known && known.revision >= revision && now < known.validUntil) return known.covered
  const loaded = await loadPolicyRules(db, accountId, policyId, now)
  if (!loaded) return undefined
  const covered = new Map<Uuid, CoveredRule>()
  for (const [index, { kind, by, count }] of await findCoveredInSlices(loaded.rules))
    covered.set(ruleIdAt(loaded, index), { kind, by: by.map((each) => ruleIdAt(loaded, each)), count })
  remembered.delete(policyId)
  if (covered.size <= maxRemembered) remembered.set(policyId, { ...loaded, covered })
  let size = 0
  for (const [id, { covered: each }] of [...remembered].reverse()) {
    size += each.size + 1
    if (size > maxRemembered) remembered.delete(id)
  }
  return covered
}
