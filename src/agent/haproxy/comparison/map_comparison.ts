import type { Claims, Command } from '../maps/claims.ts'
import { type MapName, mapNames } from '../maps/entries.ts'
import { changeAndReadBack, DoubledEntry, repairsAt, repairsOf } from '../maps/map_changes.ts'
import type { MapRuntime, Place } from '../process/runtime.ts'
import { type Difference, repairedBy } from './difference.ts'

type Parts = {
  runtime: MapRuntime
  claims: Claims
  /** Runs `work` while nothing else changes HAProxy. */
  inTurn: (work: () => Promise<void>) => Promise<void>
  onDifferences: (found: readonly Difference[]) => void
  reload: (cause: unknown) => Promise<void>
}

/** Entries per read: about a millisecond for the agent, and a tenth of that for HAProxy. */
const perSlice = 500
/** Entries looked up in one turn, while changes wait. */
const perTurn = 200

/**
 * Finds and repairs what another program changed in HAProxy's maps. It reads entries outside a turn, so that changes do
 * not wait. An apparent difference may be a concurrent change, so it is looked up again in a turn. A missing entry shows
 * in the size of its map; only then does a turn read the whole map.
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

  /** Awaits `pace` between slices, which says whether to continue. */
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
