import type { DbPool } from '../db/pool.ts'
import type { Caller } from '../identity/caller.ts'
import type { Uuid } from '../kernel/ids.ts'
import type { Address } from '../kernel/ip/address.ts'
import { type CompiledPolicy, compilePolicy } from '../kernel/ip/ranges.ts'
import { loadPolicy } from './policies.ts'
import { isRefused } from './refusal.ts'

type PolicySets = readonly (readonly CompiledPolicy[])[]
/** The enforced policies before and after a change. */
export type WhatIf = { readonly before: PolicySets; readonly after: PolicySets }
export type WhatIfOf = (deciders: readonly { enforced: boolean; policies: readonly Uuid[] }[]) => Promise<WhatIf>

/** Loads each policy once. `after` replaces the rules of `changed` in the result. */
export function whatIfWith(
  db: DbPool,
  { accountId }: Caller,
  changed: Uuid,
  after: CompiledPolicy,
  now: number,
): WhatIfOf {
  const loaded = new Map<Uuid, CompiledPolicy>()
  const load = async (id: Uuid): Promise<CompiledPolicy> => {
    // The policy was deleted meanwhile, so it allows no address.
    const policy = loaded.get(id) ?? (await loadPolicy(db, accountId, id, now))?.ranges ?? compilePolicy([])
    loaded.set(id, policy)
    return policy
  }
  return async (deciders) => {
    // Unenforced restrictions refuse no address, so their policies are not loaded.
    const enforced = deciders.filter((each) => each.enforced)
    for (const id of enforced.flatMap(({ policies }) => policies)) await load(id)
    const as = (rangesOf: (id: Uuid) => CompiledPolicy) => enforced.map(({ policies }) => policies.map(rangesOf))
    const now = (id: Uuid) => loaded.get(id) as CompiledPolicy
    return { before: as(now), after: as((id) => (id === changed ? after : now(id))) }
  }
}

/** Splits out the addresses that the change would newly refuse or newly allow. */
export function flipsOf<Sighting extends { readonly address: Address }>(
  sightings: readonly Sighting[],
  decidersOf: (sighting: Sighting) => WhatIf,
): { refused: Sighting[]; allowed: Sighting[] } {
  const flips: { refused: Sighting[]; allowed: Sighting[] } = { refused: [], allowed: [] }
  for (const sighting of sightings) {
    const { before, after } = decidersOf(sighting)
    const will = isRefused(after, sighting.address)
    if (isRefused(before, sighting.address) === will) continue
    flips[will ? 'refused' : 'allowed'].push(sighting)
  }
  return flips
}
