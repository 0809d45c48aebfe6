import type { Claims, Command } from './claims.ts'
import { type MapName, mapNames } from './entries.ts'
import { changeCommands, replaceMap, tell } from './runtime.ts'
import type { ProxySettings } from './settings.ts'

/** `set map` and `del map` walk the whole map; from about here on a new version of the map is cheaper. */
const fewChanges = 50
/** New entries are sent one by one. From this many on, unless the map is far larger, replacing the map is faster. */
const manyNew = 500

/** Tells a running HAProxy. `claims` is what its maps have to be afterwards. */
export async function changeMaps(settings: ProxySettings, claims: Claims, commands: readonly Command[]): Promise<void> {
  const ordered = dependenciesFirst(commands)
  const replaced = new Set(mapNames.filter((map) => isCheaperToReplace(claims, map, commands)))
  const tellFew = async (few: readonly Command[]) => {
    if (few.length > 0) await tell(settings.runtimeSocket, changeCommands(settings, few))
  }
  // Map after map, so that whatever an entry looks up is there before it.
  for (const map of mapNames) {
    if (replaced.has(map)) await replaceMap(settings, map, claims.entries(map))
    else await tellFew(ordered.filter((each) => each.map === map && each.kind !== 'del'))
  }
  await tellFew(ordered.filter(({ map, kind }) => kind === 'del' && !replaced.has(map)))
}

export async function replaceMaps(settings: ProxySettings, claims: Claims): Promise<void> {
  for (const map of mapNames) await replaceMap(settings, map, claims.entries(map))
}

function isCheaperToReplace(claims: Claims, map: MapName, commands: readonly Command[]): boolean {
  const ofMap = commands.filter((each) => each.map === map)
  const adding = ofMap.filter(({ kind }) => kind === 'add').length
  return ofMap.length - adding > fewChanges || (adding > manyNew && adding > claims.size(map) / 4)
}

/**
 * What an entry looks up is there before it, and goes after it; restrictions are in force before what they restrict. Of
 * routes and names the narrower come first and go last: for a moment without it, /admin would be served by the route of /.
 */
function dependenciesFirst(commands: readonly Command[]): Command[] {
  const rank = ({ map, kind }: Command) =>
    kind === 'del' ? 2 * mapNames.length - mapNames.indexOf(map) : mapNames.indexOf(map)
  const width = ({ key, kind }: Command) => (kind === 'del' ? key.length : -key.length)
  return commands.toSorted((a, b) => rank(a) - rank(b) || width(a) - width(b))
}
