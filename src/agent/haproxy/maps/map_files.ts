import type { Timing } from '../../../kernel/timing.ts'
import { type Files, writeOrKeep } from '../../disk/files.ts'
import { createTurns } from '../process/turns.ts'
import { mapFile, mapFolder, type ProxySettings } from '../settings.ts'
import type { Claims } from './claims.ts'
import { type MapName, mapNames } from './entries.ts'

/** Maximum share of time for the regular writes: a million lines take seconds. */
const shareOfTime = 1 / 50

/**
 * The files that HAProxy reads when it starts or reloads. They are not rewritten with each change: writing a million
 * lines for one entry would be nearly all of the work, and HAProxy cannot read a journal. Only the agent starts and
 * reloads HAProxy, and it flushes the changed files before.
 */
export function createMapFiles(
  settings: ProxySettings,
  claims: Claims,
  config: { write(): Promise<void> },
  files: Files,
  timing: Pick<Timing, 'elapsed'>,
) {
  const outdated = new Set<MapName | 'config'>()
  const turns = createTurns()
  let notBefore = 0

  async function write(): Promise<void> {
    await files.makeFolder(mapFolder(settings))
    for (const name of [...outdated]) {
      // Cleared first, because the map may change while it is written.
      outdated.delete(name)
      const written =
        name === 'config'
          ? config.write()
          : writeOrKeep(files, mapFile(settings, name), () => lines(claims.entries(name)))
      await written.catch((error) => {
        outdated.add(name)
        throw error
      })
    }
  }

  return {
    outdate(names: Iterable<MapName | 'config'> = [...mapNames, 'config']): void {
      for (const name of names) outdated.add(name)
    },
    /** Resolves once the files match the claims, unless these change meanwhile. */
    flush: () => turns.next(write),
    /**
     * Prepares for a reload that the agent did not start. Changes do not wait for the write: a file may then contain one
     * change and lack an earlier one, and is written again.
     */
    async flushIfDue(): Promise<void> {
      const began = timing.elapsed()
      if (outdated.size === 0 || began < notBefore) return
      await turns.next(write).finally(() => {
        const now = timing.elapsed()
        notBefore = now + (now - began) / shareOfTime
      })
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
