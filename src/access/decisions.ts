import type { DbPool } from '../db/pool.ts'
import type { Clock } from '../kernel/clock.ts'
import type { Uuid } from '../kernel/ids.ts'
import type { Address } from '../kernel/ip/address.ts'
import type { Decision } from '../kernel/ip/decide.ts'
import { type Action, lookup } from '../kernel/ip/ranges.ts'
import { type LoadedPolicy, loadOutline, type RestrictionOutline, type RestrictionType, ruleIdAt } from './policies.ts'
import { createPolicyCache } from './policy_cache.ts'
import { decideEach } from './refusal.ts'

/** Combined result of several policies, with the policy and rule that decided. Both are absent if no rule matched. */
export type Verdict = {
  readonly allowed: boolean
  readonly policyId?: Uuid
  readonly ruleId?: Uuid
  /** The result of each policy on its own. */
  readonly explain: () => PolicyVerdict[]
}
/** Action and rule are absent if no rule of the policy matched. */
export type PolicyVerdict = { readonly policyId: Uuid; readonly action?: Action; readonly ruleId?: Uuid }
export type RestrictionDecision = Verdict & { readonly restrictionId: Uuid; readonly enforced: boolean }

/** Attached policies in order, with the revisions at which they were read. */
export type Attached = RestrictionOutline['policies']
/** The `ip_restriction` module of a TCP edge or a route. Unenforced, it only warns. */
export type AttachedModule = { readonly enforced: boolean; readonly policies: Attached }

export type Evaluate = {
  /** One decision per restriction of this traffic. `refusalIn` combines them. */
  (
    account: { accountId: Uuid; policyRevision: number },
    type: RestrictionType,
    address: Address | undefined,
  ): Promise<RestrictionDecision[]>
  /**
   * Decides by the module of a TCP edge or a route. `read` returns its policies, and is called again if they change
   * meanwhile.
   */
  readonly byModule: (
    account: { accountId: Uuid },
    read: () => Promise<AttachedModule | undefined>,
    address: Address | undefined,
  ) => Promise<(Verdict & { readonly enforced: boolean }) | undefined>
}

/**
 * Decides by the restrictions of an account. The caches are used only for the revision that the caller's look-up has
 * just read from the database, so a change takes effect with the next request in every process.
 */
export function createEvaluate(db: DbPool, clock: Clock, maxCachedBytes: number): Evaluate {
  const outlineOf = createOutlineCache(db)
  const findPolicy = createPolicyCache(db, clock, maxCachedBytes)

  /** Resolves to undefined if a policy has changed since `attached` was read. */
  async function load(accountId: Uuid, attached: Attached): Promise<LoadedPolicy[] | undefined> {
    const policies: LoadedPolicy[] = []
    for (const { id, revision } of attached) {
      const found = await findPolicy(accountId, id, revision)
      if (found?.revision !== revision) return undefined
      policies.push(found)
    }
    return policies
  }

  async function decidersOf(accountId: Uuid, restrictions: readonly RestrictionOutline[]) {
    const deciders: { restrictionId: Uuid; enforced: boolean; policies: LoadedPolicy[] }[] = []
    for (const { id, enforced, policies: attached } of restrictions) {
      const policies = await load(accountId, attached)
      if (!policies) return undefined
      deciders.push({ restrictionId: id, enforced, policies })
    }
    return deciders
  }

  const evaluate = async (
    { accountId, policyRevision }: { accountId: Uuid; policyRevision: number },
    type: RestrictionType,
    address: Address | undefined,
  ): Promise<RestrictionDecision[]> => {
    for (let revision = policyRevision; ; ) {
      const outline = await outlineOf(accountId, revision)
      const deciders = await decidersOf(
        accountId,
        outline.restrictions.filter((each) => each.type === type),
      )
      if (deciders) return decideEach(deciders, address).map((decision) => toDecision(decision, address))
      // Policies changed while they were read. A mix of old and new ones could allow an address that neither state
      // allows. Every change raises the account's revision, and a policy is detached before it is deleted, so a newer
      // outline exists.
      revision = outline.revision + 1
    }
  }

  return Object.assign(evaluate, {
    async byModule(
      { accountId }: { accountId: Uuid },
      read: () => Promise<AttachedModule | undefined>,
      address: Address | undefined,
    ) {
      for (;;) {
        const module = await read()
        if (!module) return undefined
        const { enforced } = module
        const policies = await load(accountId, module.policies)
        const [decision] = policies ? decideEach([{ enforced, policies }], address) : []
        if (decision) return { ...toVerdict(decision, address), enforced }
      }
    },
  })
}

type AccountOutline = { revision: number; restrictions: RestrictionOutline[] }
const maxOutlines = 10_000

function createOutlineCache(db: DbPool) {
  const outlines = new Map<Uuid, AccountOutline>()
  return async (accountId: Uuid, revision: number): Promise<AccountOutline> => {
    const known = outlines.get(accountId)
    if (known && known.revision >= revision) return known
    const loaded = await loadOutline(db, accountId)
    outlines.delete(accountId)
    outlines.set(accountId, loaded)
    if (outlines.size > maxOutlines) outlines.delete(outlines.keys().next().value as Uuid)
    return loaded
  }
}

type Decided = Decision & { policies: readonly LoadedPolicy[] }

function toVerdict({ allowed, policy: index, rule, policies }: Decided, address: Address | undefined): Verdict {
  const policy = index === undefined ? undefined : policies[index]
  return {
    allowed,
    ...(policy && rule !== undefined && { policyId: policy.id, ruleId: ruleIdAt(policy, rule) }),
    explain: () => policies.map((each) => verdictOfOne(each, address)),
  }
}

const toDecision = (
  { restrictionId, enforced, ...decided }: Decided & { restrictionId: Uuid; enforced: boolean },
  address: Address | undefined,
): RestrictionDecision => ({ restrictionId, enforced, ...toVerdict(decided, address) })

function verdictOfOne(policy: LoadedPolicy, address: Address | undefined): PolicyVerdict {
  const match = address && lookup(policy.ranges, address)
  return { policyId: policy.id, ...(match && { action: match.action, ruleId: ruleIdAt(policy, match.rule) }) }
}
