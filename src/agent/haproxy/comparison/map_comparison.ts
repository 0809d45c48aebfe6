import type { Claims, Command } from '../maps/claims.ts'
import { type MapName, mapNames } from '../maps/entries.ts'
import { changeAndReadBack, DoubledEntry, repairsAt, repairsOf } from '../maps/map_changes.ts'
import type { MapRuntime, Place } from '../process/runtime.ts'
import { type Difference, repairedBy } from './difference.ts'

type Parts = {
  runtime: MapRuntime
  claims: Claims
  /** When nothing else changes HAProxy. */
  inTurn: (work: () => Promise<void>) => Promise<void>
  onDifferences: (found: readonly Difference[]) => void
  /** Loads everything again. */
  reload: (cause: unknown) => Promise<void>
}

/** Entries that are read in one go: about a millisecond of the agent, and a tenth of that of HAProxy. */
const perSlice = 500
/** Places that are looked up in one turn, for which changes wait. */
const perTurn = 200

/**
 * Finds what another program changed in HAProxy's maps, and repairs it. The entries are read without a turn, so changes do
 * not wait, and what seems to be wrong may be a change that came meanwhile: it is looked up again in a turn, when nothing
 * else changes. An entry that is missing shows in the size of its map, and only then is a whole map read in one turn.
 */
export function createMapComparison({ runtime, claims, inTurn, onDifferences, reload }: Parts) {
  async function repair(repairs: readonly Command[]): Promise<void> {
    if (repairs.length === 0) return
    onDifferences(repairs.map(repairedBy))
    try {
      await changeAndReadBack(runtime, claims, repairs)
    } catch (error) {
      await reload(error)
    }
  }

  async function confirm(suspects: readonly Place[]): Promise<void> {
    for (let from = 0; from < suspects.length; from += perTurn) {
      const places = suspects.slice(from, from + perTurn)
      await inTurn(async () => repair(repairsAt(claims, places, await runtime.lookUp(places))))
    }
  }

  async function repairWhole(map: MapName): Promise<void> {
    try {
      await repair(await repairsOf(runtime, claims, map))
    } catch (error) {
      if (!(error instanceof DoubledEntry)) throw error
      onDifferences([{ what: map, name: error.place.key, kind: 'unexpected' }])
      await reload(error)
    }
  }

  /** `pace` is awaited between slices, and says whether to go on. */
  return async function compareMaps(pace: () => Promise<boolean>): Promise<void> {
    for (const map of mapNames) {
      const suspects: Place[] = []
      let read = 0
      for await (const [key, value] of runtime.entries(map)) {
        if (claims.holder(map, key) !== value) suspects.push({ map, key })
        if (++read % perSlice === 0 && !(await pace())) return
      }
      await confirm(suspects)
      await inTurn(async () => {
        if ((await runtime.size(map)) !== claims.size(map)) await repairWhole(map)
      })
    }
  }
}
