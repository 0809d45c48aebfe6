import type { Timing } from '../../../kernel/timing.ts'
import { type Files, writeOrKeep } from '../../disk/files.ts'
import { createTurns } from '../process/turns.ts'
import { mapFile, mapFolder, type ProxySettings } from '../settings.ts'
import type { Claims } from './claims.ts'
import { type MapName, mapNames } from './entries.ts'

/** Writing them regularly may take this share of the time: a million lines take seconds. */
const shareOfTime = 1 / 50

/**
 * What HAProxy reads when it starts or reloads. Not rewritten with each change: a million lines for one would be nearly
 * all of the work, and a journal is nothing that HAProxy could read. They are current whenever HAProxy reads them, because
 * only we start and reload it, and write what has changed before that.
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
      // First, because it may change while it is written.
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
    /** The files are what the claims are when it resolves, provided that nothing changes meanwhile. */
    flush: () => turns.next(write),
    /**
     * For a reload that is none of ours. Changes need not wait for it: a file may then have one of them and not the one
     * before, and is written again.
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
