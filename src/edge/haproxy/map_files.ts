import { mkdir, open, rename } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Claims } from './claims.ts'
import { type MapName, mapNames } from './entries.ts'
import { mapFolder, type ProxySettings } from './settings.ts'

export const mapFile = (settings: ProxySettings, map: MapName): string => join(mapFolder(settings), `${map}.map`)

/** What HAProxy reads when it starts or reloads. */
export async function writeMapFiles(settings: ProxySettings, claims: Claims, maps: Iterable<MapName> = mapNames) {
  await mkdir(mapFolder(settings), { recursive: true })
  for (const map of maps) await writeDurably(mapFile(settings, map), lines(claims.entries(map)))
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

/** After it resolves there is the whole new file, also after a power cut; before that the whole old one. */
export async function writeDurably(file: string, parts: Iterable<string>): Promise<void> {
  const temporary = `${file}.new`
  const handle = await open(temporary, 'w', 0o600)
  try {
    for (const part of parts) await handle.write(part)
    await handle.sync()
  } finally {
    await handle.close()
  }
  await rename(temporary, file)
  const folder = await open(dirname(file), 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}
