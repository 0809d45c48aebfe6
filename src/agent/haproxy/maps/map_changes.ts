import { type MapRuntime, RuntimeError } from '../process/runtime.ts'
import type { Claims, Command } from './claims.ts'
import { mapNames } from './entries.ts'

/**
 * Tells a running HAProxy, entry by entry and with traffic in between. Never a whole map at once: with a million entries
 * that would take it a minute and stall every request. See docs/adr/0047.
 */
export async function changeMaps(runtime: MapRuntime, commands: readonly Command[]): Promise<void> {
  if (commands.length > 0) await runtime.change(dependenciesFirst(commands))
}

/**
 * Leaves a running HAProxy with exactly these entries, and touches none that is right already. Throws if it cannot, for
 * example because a key was added twice by hand: a command would reach only one of the two.
 */
export async function bringUpToDate(runtime: MapRuntime, claims: Claims): Promise<void> {
  const commands: Command[] = []
  for (const map of mapNames) {
    const missing = new Set(claims.keys(map))
    const unwanted = new Set<string>()
    for await (const [key, value] of runtime.entries(map)) {
      const wanted = claims.holder(map, key)
      if (wanted === undefined ? unwanted.has(key) : !missing.delete(key))
        throw new RuntimeError(`HAProxy has ${key} twice in the map ${map}`)
      if (wanted === undefined) unwanted.add(key)
      else if (wanted !== value) commands.push({ kind: 'set', map, key, value: wanted })
    }
    for (const key of unwanted) commands.push({ kind: 'del', map, key })
    for (const key of missing) commands.push({ kind: 'add', map, key, value: claims.holder(map, key) ?? '' })
  }
  await changeMaps(runtime, commands)
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
