import type { DbPool } from '../db/pool.ts'
import type { Clock } from '../kernel/clock.ts'
import type { Uuid } from '../kernel/ids.ts'
import type { Address } from '../kernel/ip/address.ts'
import { decide } from '../kernel/ip/decide.ts'
import { type Action, lookup } from '../kernel/ip/ranges.ts'
import {
  type LoadedPolicy,
  loadOutline,
  loadPolicy,
  type RestrictionOutline,
  type RestrictionType,
  ruleIdAt,
  weightOf,
} from './policies.ts'

/** What policies that count together say of an address, and the policy and rule behind it, if any rule matched. */
export type Verdict = {
  readonly allowed: boolean
  readonly policyId?: Uuid
  readonly ruleId?: Uuid
  /** The result of each policy on its own. */
  readonly explain: () => PolicyVerdict[]
}
/** Without action and rule when no rule of the policy matched. */
export type PolicyVerdict = { readonly policyId: Uuid; readonly action?: Action; readonly ruleId?: Uuid }
export type RestrictionDecision = Verdict & { readonly restrictionId: Uuid; readonly enforced: boolean }

/** Policies as they were found attached to something, in their order. */
export type Attached = RestrictionOutline['policies']

export type Evaluate = {
  (
    account: { accountId: Uuid; policyRevision: number },
    type: RestrictionType,
    address: Address | undefined,
  ): Promise<RestrictionDecision[]>
  /** By policies attached to something else. `read` returns which, and is called again if they changed in between. */
  readonly byPolicies: (
    account: { accountId: Uuid },
    read: () => Promise<Attached | undefined>,
    address: Address | undefined,
  ) => Promise<Verdict | undefined>
}

type AccountOutline = { revision: number; restrictions: RestrictionOutline[] }

/**
 * Judges addresses by the restrictions of an account. What it keeps is used only under the revision that the caller's
 * look-up has just read from the database: a change holds from the next request on, whichever process made it.
 */
export function createEvaluate(db: DbPool, clock: Clock, maxCachedBytes: number): Evaluate {
  const outlines = new Map<Uuid, AccountOutline>()
  const policies = new Map<Uuid, LoadedPolicy>()
  const loading = new Map<string, Promise<LoadedPolicy | undefined>>()
  let cachedBytes = 0

  async function outlineOf(accountId: Uuid, revision: number): Promise<AccountOutline> {
    const known = outlines.get(accountId)
    if (known && known.revision >= revision) return known
    const loaded = await loadOutline(db, accountId)
    outlines.delete(accountId)
    outlines.set(accountId, loaded)
    if (outlines.size > 10_000) outlines.delete(outlines.keys().next().value as Uuid)
    return loaded
  }

  async function policyOf(accountId: Uuid, id: Uuid, revision: number): Promise<LoadedPolicy | undefined> {
    const known = policies.get(id)
    if (known && known.revision >= revision && clock() < known.validUntil) return known
    // Requests that come while it is loading wait for the same load instead of starting their own.
    const key = `${id} ${revision}`
    let load = loading.get(key)
    if (!load) {
      load = loadPolicy(db, accountId, id, clock()).finally(() => loading.delete(key))
      loading.set(key, load)
    }
    const loaded = await load
    if (!loaded) return undefined
    keep(loaded)
    // Once more through the door, whoever started the load: a rule may have expired while it was under way.
    return clock() < loaded.validUntil ? loaded : policyOf(accountId, id, revision)
  }

  function keep(policy: LoadedPolicy): void {
    if (policies.get(policy.id) === policy) return
    forget(policy.id)
    policies.set(policy.id, policy)
    cachedBytes += weightOf(policy)
    // The oldest loads go first; one that is still in use is soon loaded again.
    for (const id of policies.keys()) {
      if (cachedBytes <= maxCachedBytes || id === policy.id) break
      forget(id)
    }
  }

  function forget(id: Uuid): void {
    const known = policies.get(id)
    if (!known) return
    policies.delete(id)
    cachedBytes -= weightOf(known)
  }

  /** Undefined when a policy is not as the outline says any more. */
  async function judgeBy(
    { restrictions }: AccountOutline,
    accountId: Uuid,
    type: RestrictionType,
    address: Address | undefined,
  ): Promise<RestrictionDecision[] | undefined> {
    const judgements: RestrictionDecision[] = []
    for (const { id, enforced, policies: attached, type: restricted } of restrictions) {
      if (restricted !== type) continue
      const verdict = await verdictOf(accountId, attached, address)
      if (!verdict) return undefined
      judgements.push({ restrictionId: id, enforced, ...verdict })
    }
    return judgements
  }

  /** Undefined when a policy is not as it was found any more. */
  async function verdictOf(
    accountId: Uuid,
    attached: Attached,
    address: Address | undefined,
  ): Promise<Verdict | undefined> {
    const loaded: LoadedPolicy[] = []
    for (const policy of attached) {
      const found = await policyOf(accountId, policy.id, policy.revision)
      if (found?.revision !== policy.revision) return undefined
      loaded.push(found)
    }
    const decision = decide(
      loaded.map(({ ranges }) => ranges),
      address,
    )
    const policy = decision.policy === undefined ? undefined : loaded[decision.policy]
    return {
      allowed: decision.allowed,
      ...(policy && decision.rule !== undefined && { policyId: policy.id, ruleId: ruleIdAt(policy, decision.rule) }),
      explain: () => loaded.map((each) => verdictOfOne(each, address)),
    }
  }

  const evaluate = async (
    { accountId, policyRevision }: { accountId: Uuid; policyRevision: number },
    type: RestrictionType,
    address: Address | undefined,
  ): Promise<RestrictionDecision[]> => {
    for (let revision = policyRevision; ; ) {
      const outline = await outlineOf(accountId, revision)
      const judgements = await judgeBy(outline, accountId, type, address)
      if (judgements) return judgements
      // A change was made in between. Policies from before it and from after it could together allow an address that neither
      // state lets in. Every change raises the account's revision, and a policy is detached before it is deleted: so
      // there is a newer outline.
      revision = outline.revision + 1
    }
  }

  return Object.assign(evaluate, {
    async byPolicies(
      { accountId }: { accountId: Uuid },
      read: () => Promise<Attached | undefined>,
      address: Address | undefined,
    ) {
      for (;;) {
        const attached = await read()
        const verdict = attached && (await verdictOf(accountId, attached, address))
        if (verdict || !attached) return verdict
      }
    },
  })
}

function verdictOfOne(policy: LoadedPolicy, address: Address | undefined): PolicyVerdict {
  const match = address && lookup(policy.ranges, address)
  return { policyId: policy.id, ...(match && { action: match.action, ruleId: ruleIdAt(policy, match.rule) }) }
}
