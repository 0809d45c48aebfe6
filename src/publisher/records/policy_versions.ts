import { type LoadedPolicy, loadPolicyRules, weightOf } from '../../access/policies.ts'
import { continuePolicy } from '../../access/policy_delta.ts'
import type { DbPool } from '../../db/pool.ts'
import { type Cut, continueCut, cutPolicy } from '../../distribution/pieces.ts'
import { policyFormat } from '../../distribution/policy_file.ts'
import { ruleFormat } from '../../distribution/rule_file.ts'
import { continueRuleList, cutRuleList } from '../../distribution/rule_list.ts'
import type { Uuid } from '../../kernel/ids.ts'
import { compilePolicyInSlices } from '../../kernel/ip/ranges.ts'

/** The last compiled version of a policy, with its files cut into pieces. */
export type PolicyVersion = {
  readonly policy: LoadedPolicy
  readonly decisions: Cut
  readonly rules: Cut
  /** Set only if some rules expire, because nodes need it for nothing else. */
  readonly ruleList?: Cut
}

/** Below this size, compiling a policy from its rules is as fast as updating it. */
const smallestKept = 256 * 1024

export type FindPolicyVersion = typeof compiled

/**
 * Caches the last published versions of large policies, up to a number of bytes, so that a change of one rule reads,
 * encodes and hashes only what changed.
 */
export function createPolicyVersions(maxBytes: number) {
  const versions = new Map<Uuid, PolicyVersion>()
  let bytes = 0

  function keep(version: PolicyVersion): void {
    const { id } = version.policy
    forget(id)
    const weight = weightOfVersion(version)
    if (weight < smallestKept || weight > maxBytes) return
    versions.set(id, version)
    bytes += weight
    // Removes the least recently changed first.
    for (const oldest of versions.keys()) {
      if (bytes <= maxBytes) break
      forget(oldest)
    }
  }

  function forget(id: Uuid): void {
    const known = versions.get(id)
    if (!known) return
    versions.delete(id)
    bytes -= weightOfVersion(known)
  }

  return {
    /** The current version of the policy; undefined if it was deleted. */
    async current(db: DbPool, accountId: Uuid, id: Uuid, now: number): Promise<PolicyVersion | undefined> {
      const known = versions.get(id)
      const version =
        (known && (await continued(db, accountId, known, now))) ?? (await compiled(db, accountId, id, now))
      if (version) keep(version)
      else forget(id)
      return version
    },
    /** Compiles from all rules and ignores the cached version, so that a fault in it does not persist. */
    async fromRules(db: DbPool, accountId: Uuid, id: Uuid, now: number): Promise<PolicyVersion | undefined> {
      const version = await compiled(db, accountId, id, now)
      if (version) keep(version)
      return version
    },
    bytes: () => bytes,
  }
}

export async function compiled(db: DbPool, accountId: Uuid, id: Uuid, now: number): Promise<PolicyVersion | undefined> {
  const loaded = await loadPolicyRules(db, accountId, id, now)
  if (!loaded) return undefined
  const { rules, ...policy } = loaded
  const ranges = await compilePolicyInSlices(rules)
  return {
    policy: { ...policy, ranges },
    decisions: cutPolicy(ranges, policyFormat),
    rules: cutPolicy(ranges, ruleFormat(accountId, policy.ruleIds)),
    ...(doesExpire(policy) && { ruleList: cutRuleList(loaded) }),
  }
}

const doesExpire = ({ validUntil }: Pick<LoadedPolicy, 'validUntil'>): boolean => validUntil < Number.POSITIVE_INFINITY

async function continued(
  db: DbPool,
  accountId: Uuid,
  known: PolicyVersion,
  now: number,
): Promise<PolicyVersion | undefined> {
  const next = await continuePolicy(db, accountId, known.policy, now)
  if (!next) return undefined
  const { policy, regions, part } = next
  // The first rule of the policy that expires: the list needs the other rules too.
  if (doesExpire(policy) && !known.ruleList) return undefined
  return {
    policy,
    decisions: continueCut(known.decisions, policy.ranges, regions, policyFormat),
    rules: continueCut(known.rules, policy.ranges, regions, ruleFormat(accountId, policy.ruleIds)),
    ...(doesExpire(policy) && known.ruleList && { ruleList: continueRuleList(known.ruleList, regions, part) }),
  }
}

const weightOfVersion = ({ policy, decisions, rules, ruleList }: PolicyVersion): number =>
  weightOf(policy) +
  [decisions, rules, ...(ruleList ? [ruleList] : [])]
    .flatMap((cut) => [...cut[4], ...cut[6]])
    .reduce((sum, { length }) => sum + length, 0)
