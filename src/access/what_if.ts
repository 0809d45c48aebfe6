import type { DbPool } from '../db/pool.ts'
import type { Caller } from '../identity/caller.ts'
import type { Uuid } from '../kernel/ids.ts'
import { type Address, parseAddress } from '../kernel/ip/address.ts'
import { type CompiledPolicy, compilePolicy } from '../kernel/ip/ranges.ts'
import { loadPolicy } from './policies.ts'
import { type Decider, decideEach, refusalIn } from './refusal.ts'

/** What decides about some traffic, as it is and as it would be after a change. */
export type WhatIf = { readonly before: readonly Decider[]; readonly after: readonly Decider[] }
export type WhatIfOf = (deciders: readonly { enforced: boolean; policies: readonly Uuid[] }[]) => Promise<WhatIf>

/** Loads each policy once. `changed` counts as `after` in what would be. */
export function whatIfWith(
  db: DbPool,
  { accountId }: Caller,
  changed: Uuid,
  after: CompiledPolicy,
  now: number,
): WhatIfOf {
  const loaded = new Map<Uuid, CompiledPolicy>()
  const load = async (id: Uuid): Promise<CompiledPolicy> => {
    // A policy that was just deleted allows no address.
    const policy = loaded.get(id) ?? (await loadPolicy(db, accountId, id, now))?.ranges ?? compilePolicy([])
    loaded.set(id, policy)
    return policy
  }
  return async (deciders) => {
    // Those that are not enforced refuse nobody, so their policies need not be loaded.
    const enforced = deciders.filter((each) => each.enforced)
    for (const id of enforced.flatMap(({ policies }) => policies)) await load(id)
    const as = (rangesOf: (id: Uuid) => CompiledPolicy) =>
      enforced.map(({ policies }) => ({ enforced: true, policies: policies.map((id) => ({ ranges: rangesOf(id) })) }))
    const now = (id: Uuid) => loaded.get(id) as CompiledPolicy
    return { before: as(now), after: as((id) => (id === changed ? after : now(id))) }
  }
}

export const isRefused = (deciders: readonly Decider[], address: Address | undefined): boolean =>
  refusalIn(decideEach(deciders, address)) !== undefined

/** Those of the sightings who would be refused and were not, and the other way round. */
export function flipsOf<Sighting extends { ip: string }>(
  sightings: readonly Sighting[],
  decidersOf: (sighting: Sighting) => WhatIf,
): { refused: Sighting[]; allowed: Sighting[] } {
  const flips: { refused: Sighting[]; allowed: Sighting[] } = { refused: [], allowed: [] }
  for (const sighting of sightings) {
    const { before, after } = decidersOf(sighting)
    const address = parseAddress(sighting.ip)
    const [was, will] = [isRefused(before, address), isRefused(after, address)]
    if (!was && will) flips.refused.push(sighting)
    if (was && !will) flips.allowed.push(sighting)
  }
  return flips
}
