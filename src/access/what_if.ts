import type { DbPool } from '../db/pool.ts'
import type { Caller } from '../identity/caller.ts'
import type { Uuid } from '../kernel/ids.ts'
import { type Address, parseAddress } from '../kernel/ip/address.ts'
import { decide } from '../kernel/ip/decide.ts'
import { type CompiledPolicy, compilePolicy } from '../kernel/ip/ranges.ts'
import { loadPolicy } from './policies.ts'

/** Policies that count together, as one restriction or module has them. */
type PolicySet = readonly CompiledPolicy[]
/** What decides about some traffic, as it is and as it would be: every set must allow. */
export type WhatIf = { readonly before: readonly PolicySet[]; readonly after: readonly PolicySet[] }
export type WhatIfOf = (sets: readonly (readonly Uuid[])[]) => Promise<WhatIf>

/** Makes deciders of lists of policies. Each policy is loaded once, and `changed` counts as `after` in what would be. */
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
  return async (sets) => {
    const before: CompiledPolicy[][] = []
    const then: CompiledPolicy[][] = []
    for (const ids of sets) {
      const [now, later]: [CompiledPolicy[], CompiledPolicy[]] = [[], []]
      for (const id of ids) {
        const policy = await load(id)
        now.push(policy)
        later.push(id === changed ? after : policy)
      }
      before.push(now)
      then.push(later)
    }
    return { before, after: then }
  }
}

export const allows = (sets: readonly PolicySet[], address: Address | undefined): boolean =>
  sets.every((set) => decide(set, address).allowed)

/** Those of the sightings who would be refused and were not, and the other way round. */
export function flipsOf<Sighting extends { ip: string }>(
  usageBuffer: readonly Sighting[],
  decidersOf: (sighting: Sighting) => WhatIf,
): { refused: Sighting[]; allowed: Sighting[] } {
  const flips: { refused: Sighting[]; allowed: Sighting[] } = { refused: [], allowed: [] }
  for (const sighting of usageBuffer) {
    const { before, after } = decidersOf(sighting)
    const address = parseAddress(sighting.ip)
    const [was, will] = [allows(before, address), allows(after, address)]
    if (was && !will) flips.refused.push(sighting)
    if (!was && will) flips.allowed.push(sighting)
  }
  return flips
}
