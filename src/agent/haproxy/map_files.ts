import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { writeAtomically } from '../atomic_file.ts'
import type { Claims } from './claims.ts'
import { type MapName, mapNames } from './entries.ts'
import { mapFolder, type ProxySettings } from './settings.ts'

export const mapFile = (settings: ProxySettings, map: MapName): string => join(mapFolder(settings), `${map}.map`)

/** What HAProxy reads when it starts or reloads. */
export async function writeMapFiles(settings: ProxySettings, claims: Claims, maps: Iterable<MapName> = mapNames) {
  await mkdir(mapFolder(settings), { recursive: true })
  for (const map of maps) await writeAtomically(mapFile(settings, map), lines(claims.entries(map)))
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
