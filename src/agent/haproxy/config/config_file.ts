import { createHash } from 'node:crypto'
import { open, readFile } from 'node:fs/promises'
import { packageFiles } from '../../../kernel/package_files.ts'
import { type Files, writeOrKeep } from '../../disk/files.ts'
import { configFile, type ProxySettings } from '../settings.ts'
import { renderConfig } from './config.ts'

const nativeMark = '# Native backends, as of the last write.\n'

/**
 * The configuration, which depends on the settings alone, and after it the native backends, so that a new worker has them
 * before its first request.
 */
export function createConfigFile(settings: ProxySettings, natives: () => Iterable<string>, files: Files) {
  let areNativesLeftOut = false

  return {
    /** Whether HAProxy was started with the same, but for native backends. */
    async isCurrent(): Promise<boolean> {
      const wanted = Buffer.from(await commonPart(settings))
      const file = await open(configFile(settings)).catch(() => undefined)
      if (!file) return false
      try {
        const { buffer } = await file.read(Buffer.alloc(wanted.length), 0, wanted.length, 0)
        return buffer.equals(wanted)
      } finally {
        await file.close()
      }
    },
    async write(): Promise<void> {
      const common = await commonPart(settings)
      await writeOrKeep(files, configFile(settings), function* () {
        yield common
        if (!areNativesLeftOut) yield* inPieces(natives())
      })
    },
    /** For when HAProxy does not start: without native backends it may, and they are added one by one; or else with them. */
    toggleNatives(): boolean {
      areNativesLeftOut = !areNativesLeftOut
      return areNativesLeftOut
    },
  }
}
export type ConfigFile = ReturnType<typeof createConfigFile>

/** With a digest of the Lua files: new ones have to be loaded although the configuration says the same. */
async function commonPart(settings: ProxySettings): Promise<string> {
  const digest = createHash('sha256')
  for (const file of packageFiles.lua) digest.update(await readFile(file))
  return `${renderConfig(settings)}\n# Lua ${digest.digest('hex')}\n${nativeMark}`
}

function* inPieces(texts: Iterable<string>): Generator<string> {
  let piece = ''
  for (const text of texts) {
    piece += text
    if (piece.length < 1 << 20) continue
    yield piece
    piece = ''
  }
  yield piece
}
