import type { DbPool } from '../db/pool.ts'
import type { Clock } from '../kernel/clock.ts'
import type { Uuid } from '../kernel/ids.ts'
import { type LoadedPolicy, loadPolicy, weightOf } from './policies.ts'
import { continuePolicy } from './policy_delta.ts'

/** The policy at this revision or a later one; undefined if it was deleted. */
export type FindPolicy = (accountId: Uuid, id: Uuid, revision: number) => Promise<LoadedPolicy | undefined>

/** Caches compiled policies by revision, up to `maxBytes`. */
export function createPolicyCache(db: DbPool, clock: Clock, maxBytes: number): FindPolicy {
  const policies = new Map<Uuid, LoadedPolicy>()
  const loading = new Map<string, Promise<LoadedPolicy | undefined>>()
  let bytes = 0

  function keep(policy: LoadedPolicy): void {
    if (policies.get(policy.id) === policy) return
    forget(policy.id)
    policies.set(policy.id, policy)
    bytes += weightOf(policy)
    // Evicts the oldest loads first; a policy still in use is soon loaded again.
    for (const id of policies.keys()) {
      if (bytes <= maxBytes || id === policy.id) break
      forget(id)
    }
  }

  function forget(id: Uuid): void {
    const known = policies.get(id)
    if (!known) return
    policies.delete(id)
    bytes -= weightOf(known)
  }

  async function bringUpToDate(known: LoadedPolicy | undefined, accountId: Uuid, id: Uuid) {
    const continued = known && (await continuePolicy(db, accountId, known, clock()))
    return continued?.policy ?? loadPolicy(db, accountId, id, clock())
  }

  const find: FindPolicy = async (accountId, id, revision) => {
    const known = policies.get(id)
    if (known && known.revision >= revision && clock() < known.validUntil) return known
    // Concurrent requests share one load.
    const key = `${id} ${revision}`
    let load = loading.get(key)
    if (!load) {
      load = bringUpToDate(known, accountId, id).finally(() => loading.delete(key))
      loading.set(key, load)
    }
    const loaded = await load
    if (!loaded) return undefined
    keep(loaded)
    // Check again even if another request started the load: a rule may have expired meanwhile.
    return clock() < loaded.validUntil ? loaded : find(accountId, id, revision)
  }
  return find
}
