import { type MapRuntime, type Place, RuntimeError } from '../process/runtime.ts'
import type { Claims, Command } from './claims.ts'
import { type MapName, mapNames } from './entries.ts'

/** Another program added a key that is there already. A command would reach only one of the two. */
export class DoubledEntry extends RuntimeError {
  readonly place: Place
  constructor(place: Place) {
    super(`HAProxy has ${place.key} twice in the map ${place.map}`)
    this.place = place
  }
}

/**
 * Tells a running HAProxy, entry by entry and with traffic in between. Never a whole map at once: with a million entries
 * that would take it a minute and stall every request. See docs/adr/0047.
 */
async function changeMaps(
  runtime: MapRuntime,
  commands: readonly Command[],
  places: readonly Place[],
): Promise<(string | undefined)[]> {
  return commands.length + places.length > 0 ? runtime.change(dependenciesFirst(commands), places) : []
}

/**
 * Leaves a running HAProxy with exactly these entries, and touches none that is right already. Throws if it cannot, for
 * example because a key is there twice.
 */
export async function bringUpToDate(runtime: MapRuntime, claims: Claims): Promise<void> {
  const commands: Command[] = []
  for (const map of mapNames) for (const command of await repairsOf(runtime, claims, map)) commands.push(command)
  await changeAndReadBack(runtime, claims, commands)
}

/** Throws if requests do not find at these places what they should. */
export async function changeAndReadBack(
  runtime: MapRuntime,
  claims: Claims,
  commands: readonly Command[],
  places: readonly Place[] = commands,
): Promise<void> {
  const [wrong] = repairsAt(claims, places, await changeMaps(runtime, commands, places))
  if (wrong) throw new RuntimeError(`HAProxy has another entry for ${wrong.key} in the map ${wrong.map} than it took`)
}

/** What has to change so that the map has exactly these entries. Nothing else may change it meanwhile. */
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

/** The same for single places, with what requests find there. Nothing if it is what they should find. */
export function repairsAt(claims: Claims, places: readonly Place[], found: readonly (string | undefined)[]): Command[] {
  return places.flatMap(({ map, key }, index): Command[] => {
    const [wanted, value] = [claims.holder(map, key), found[index]]
    if (wanted === value) return []
    if (wanted === undefined) return [{ kind: 'del', map, key }]
    return [{ kind: value === undefined ? 'add' : 'set', map, key, value: wanted }]
  })
}

/**
 * What an entry looks up is there before it, and goes after it; restrictions are in force before what they restrict. Of
 * routes and names the narrower come first and go last: for a moment without it, /admin would be served by the route of /.
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
