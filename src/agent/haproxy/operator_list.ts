import { join } from 'node:path'
import { type Files, writeIfDifferent } from '../disk/files.ts'
import type { Difference } from './comparison/difference.ts'
import { ask, converse, RuntimeError } from './process/runtime.ts'
import { loadedCertificateFolder, operatorList, type ProxySettings } from './settings.ts'

/** A name that no client requests. It keeps a file loaded that has no other names left. */
const noName = 'gatehouse.invalid'

/**
 * The crt-list of the operator's certificates. A file serves the names in its certificate, as in a folder, except those
 * that ask clients for certificates: these have their own lines in the other list, and HAProxy would prefer the older of
 * the two lines.
 */
export function createOperatorList(settings: ProxySettings, disk: Files) {
  const [folder, list] = [loadedCertificateFolder(settings), operatorList(settings)]
  let reserved: ReadonlySet<string> = new Set()
  let names: ReadonlyMap<string, readonly string[]> = new Map()
  /** Keyed by file name. */
  const lines = new Map<string, string>()

  function lineOf(file: string): string {
    const all = names.get(file) ?? []
    if (!all.some((name) => reserved.has(name))) return join(folder, file)
    const left = [...new Set(all)].filter((name) => !reserved.has(name))
    return [join(folder, file), ...(left.length > 0 ? left : [noName])].join(' ')
  }
  const write = () => writeIfDifferent(disk, list, Array.from(lines.values(), (line) => `${line}\n`).join(''))

  async function add(file: string): Promise<void> {
    const line = lineOf(file)
    await expect(settings, `add ssl crt-list ${list} <<\n${line}\n`, /Success!$/)
    lines.set(file, line)
  }
  /** Adds the new line first, so that every name always has one. */
  async function replace(file: string): Promise<void> {
    await add(file)
    const path = join(folder, file)
    const numbered = (await ask(settings.runtimeSocket, `show ssl crt-list -n ${list}`)).split('\n')
    const places = numbered.map((line) => line.split(' ')[0] ?? '').filter((place) => place.startsWith(`${path}:`))
    for (const place of places.slice(0, -1)) await expect(settings, `del ssl crt-list ${list} ${place}`, /deleted/)
  }

  return {
    /** Runs before HAProxy starts or reloads. */
    async prepare(files: ReadonlyMap<string, readonly string[]>): Promise<void> {
      names = files
      lines.clear()
      for (const file of [...files.keys()].sort()) lines.set(file, lineOf(file))
      await write()
    },
    /**
     * Updates a running HAProxy: `files` has the current names, and `isNew` tells which files HAProxy has just loaded.
     */
    async update(files: ReadonlyMap<string, readonly string[]>, isNew: (file: string) => boolean): Promise<void> {
      names = files
      for (const file of files.keys()) {
        if (isNew(file)) await add(file)
        else if (!lines.has(file)) lines.set(file, lineOf(file))
        else if (lines.get(file) !== lineOf(file)) await replace(file)
      }
      for (const file of lines.keys()) if (!files.has(file)) lines.delete(file)
      await write()
    },
    async reserve(all: ReadonlySet<string>, isRunning: boolean): Promise<void> {
      if (all.symmetricDifference(reserved).size === 0) return
      reserved = all
      if (!isRunning) return
      for (const file of lines.keys()) if (lines.get(file) !== lineOf(file)) await replace(file)
      await write()
    },
    async differences(): Promise<Difference[]> {
      const missing = new Map([...lines].map(([file, line]) => [line, file]))
      const unexpected = (await linesInForce(settings, list)).filter((line) => !missing.delete(line))
      const difference = (name: string, kind: Difference['kind']) => ({ what: 'certificate', name, kind }) as const
      return [
        ...missing.values().map((name) => difference(name, 'missing')),
        ...unexpected.map((line) => difference(line, 'unexpected')),
      ]
    },
  }
}

export async function linesInForce({ runtimeSocket }: ProxySettings, list: string): Promise<string[]> {
  const found: string[] = []
  // HAProxy parses the comment in the file as more names.
  for await (const { answer } of converse(runtimeSocket, [`show ssl crt-list ${list}`]))
    for (const line of answer.split('\n')) if (line.startsWith('/')) found.push(line.replace(/ # .*$/, '').trim())
  return found
}

async function expect({ runtimeSocket }: ProxySettings, command: string, success: RegExp): Promise<void> {
  for await (const { answer } of converse(runtimeSocket, [command]))
    if (!success.test(answer)) throw new RuntimeError(`HAProxy answered ${answer} to ${command.split('\n')[0]}`)
}
