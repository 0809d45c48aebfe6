import { type MapRuntime, type Place, RuntimeError } from '../process/runtime.ts'
import type { Claims, Command } from './claims.ts'
import { type MapName, mapNames } from './entries.ts'

/** Another program added a key a second time. A command would change only one of the two entries. */
export class DoubledEntry extends RuntimeError {
  readonly place: Place
  constructor(place: Place) {
    super(`HAProxy has ${place.key} twice in the map ${place.map}`)
    this.place = place
  }
}

/**
 * Changes a running HAProxy entry by entry, with traffic in between. It never replaces a whole map: with a million
 * entries that would take a minute and stall every request. See docs/adr/0047.
 */
async function changeMaps(
  runtime: MapRuntime,
  commands: readonly Command[],
  places: readonly Place[],
): Promise<(string | undefined)[]> {
  return commands.length + places.length > 0 ? runtime.change(dependenciesFirst(commands), places) : []
}

/**
 * Gives a running HAProxy exactly these entries without touching correct ones. Throws if that is impossible, for example
 * because a key exists twice.
 */
export async function bringUpToDate(runtime: MapRuntime, claims: Claims): Promise<void> {
  const commands: Command[] = []
  for (const map of mapNames) for (const command of await repairsOf(runtime, claims, map)) commands.push(command)
  await changeAndReadBack(runtime, claims, commands)
}

/** Throws if look-ups of the changed keys do not return the claimed values. */
export async function changeAndReadBack(
  runtime: MapRuntime,
  claims: Claims,
  commands: readonly Command[],
  places: readonly Place[] = commands,
): Promise<void> {
  const [wrong] = repairsAt(claims, places, await changeMaps(runtime, commands, places))
  if (wrong) throw new RuntimeError(`HAProxy has another entry for ${wrong.key} in the map ${wrong.map} than it took`)
}

/** Commands that give the map exactly these entries. Nothing else may change the map meanwhile. */
export async function repairsOf(runtime: MapRuntime, claims: Claims, map: MapName): Promise<Command[]> {
  const commands: Command[] = []
  const missing = new Set(claims.keys(map))
  const unwanted = new Set<string>()
  for await (const [key, value] of runtime.entries(map)) {
    const wanted = claims.holder(map, key)
    if (wanted === undefined ? unwanted.has(key) : !missing.delete(key)) throw new DoubledEntry({ map, key })
    if (wanted === undefined) unwanted.add(key)
    else if (wanted !== value) commands.push({ kind: 'set', map, key, value: wanted })
  }
  for (const key of unwanted) commands.push({ kind: 'del', map, key })
  for (const key of missing) commands.push({ kind: 'add', map, key, value: claims.holder(map, key) ?? '' })
  return commands
}

/** Commands that repair single keys, from what look-ups found there. None for a correct key. */
export function repairsAt(claims: Claims, places: readonly Place[], found: readonly (string | undefined)[]): Command[] {
  return places.flatMap(({ map, key }, index): Command[] => {
    const [wanted, value] = [claims.holder(map, key), found[index]]
    if (wanted === value) return []
    if (wanted === undefined) return [{ kind: 'del', map, key }]
    return [{ kind: value === undefined ? 'add' : 'set', map, key, value: wanted }]
  })
}

/**
 * Adds entries after those that they refer to and removes them before these, so that restrictions are in force before
 * what they restrict. Among routes and names, the narrower ones are added first and removed last: without the route
 * /admin, a request for it would reach the route / for a moment.
 */
function dependenciesFirst(commands: readonly Command[]): Command[] {
  const put = Map.groupBy(commands, ({ map, kind }) => (kind === 'del' ? undefined : map))
  const del = Map.groupBy(commands, ({ map, kind }) => (kind === 'del' ? map : undefined))
  const narrowerFirst = (some: Command[] = []) => some.sort((a, b) => b.key.length - a.key.length)
  return [
    ...mapNames.map((map) => narrowerFirst(put.get(map))),
    ...mapNames.toReversed().map((map) => narrowerFirst(del.get(map)).reverse()),
  ].flat()
}
