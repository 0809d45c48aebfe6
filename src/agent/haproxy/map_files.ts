import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { writeAtomically } from '../atomic_file.ts'
import type { Claims } from './claims.ts'
import { type MapName, mapNames } from './entries.ts'
import { mapFolder, type ProxySettings } from './settings.ts'

export const mapFile = (settings: ProxySettings, map: MapName): string => join(mapFolder(settings), `${map}.map`)

/**
 * What HAProxy reads when it starts or reloads. Not rewritten with each change: 100,000 lines for one would be most of the
 * work, and a journal is nothing that HAProxy could read.
 */
export function createMapFiles(settings: ProxySettings, claims: Claims) {
  const outdated = new Set<MapName>()
  return {
    outdate(maps: Iterable<MapName> = mapNames): void {
      for (const map of maps) outdated.add(map)
    },
    /** The files are what the claims are, when it resolves. */
    async flush(): Promise<void> {
      const maps = [...outdated]
      outdated.clear()
      try {
        await mkdir(mapFolder(settings), { recursive: true })
        for (const map of maps) await writeAtomically(mapFile(settings, map), lines(claims.entries(map)))
      } catch (error) {
        for (const map of maps) outdated.add(map)
        throw error
      }
    },
  }
}

function* lines(entries: Iterable<[key: string, value: string]>): Generator<string> {
  let text = ''
  for (const [key, value] of entries) {
    text += `${key} ${value}\n`
    if (text.length < 1 << 20) continue
    yield text
    text = ''
  }
  yield text
}
