import { createPrivateKey, X509Certificate } from 'node:crypto'
import { mkdir, readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { writeAtomically } from '../atomic_file.ts'
import { ask, converse, RuntimeError } from './runtime.ts'
import { loadedCertificateFolder, type ProxySettings } from './settings.ts'

export type Certificates = {
  /** Before HAProxy starts or reloads: its own folder then holds every usable file of the operator's, and no other. */
  prepare: () => Promise<void>
  /** Without a reload: connections, and the memory of another worker, are spared. */
  load: () => Promise<void>
  /** The state of a running HAProxy is unknown: load everything next time. */
  forget: () => void
}

/**
 * HAProxy does not start when one certificate in its folder cannot be read. So it gets a folder of its own, with
 * copies of those that can be; what replaces a good file and is broken leaves the good one in force.
 */
export function certificatesOf(settings: ProxySettings, onUnusable: (problem: Error) => void): Certificates {
  const folder = loadedCertificateFolder(settings)
  let served: Map<string, string> | undefined
  const reported = new Map<string, string>()

  async function copy(): Promise<{ changed: Map<string, string>; gone: string[] }> {
    await mkdir(folder, { recursive: true, mode: 0o700 })
    const copies = await pemFiles(folder)
    const wanted = await pemFiles(settings.certificateFolder)
    const changed = new Map<string, string>()
    for (const [name, text] of wanted) {
      const fault = faultOf(text)
      if (fault === undefined) {
        if (copies.get(name) !== text) await writeAtomically(join(folder, name), [text])
        if (served?.get(name) !== text) changed.set(name, text)
      } else if (reported.get(name) !== text) {
        reported.set(name, text)
        onUnusable(new Error(`the certificate ${name} cannot be used: ${fault}`))
      }
    }
    const gone = [...new Set([...copies.keys(), ...(served?.keys() ?? [])])].filter((name) => !wanted.has(name))
    for (const name of gone) await rm(join(folder, name), { force: true })
    return { changed, gone }
  }

  return {
    async prepare() {
      await copy()
      served = await pemFiles(folder)
    },

    async load() {
      const before = served ?? new Map<string, string>()
      const { changed, gone } = await copy()
      if (changed.size === 0 && gone.length === 0) return
      const loaded = new Set((await ask(settings.runtimeSocket, 'show ssl cert')).split('\n'))
      // Until all of it has worked, everything is tried again next time.
      served = undefined
      for (const [name, text] of changed) {
        const file = join(folder, name)
        const isNew = !loaded.has(file)
        if (isNew) await expect(settings, [`new ssl cert ${file}`], /^New empty/)
        await expect(settings, [`set ssl cert ${file} <<\n${text}`], /^Transaction (created|updated)/)
        await expect(settings, [`commit ssl cert ${file}`], /Success!$/)
        if (isNew) await expect(settings, [`add ssl crt-list ${folder} ${file}`], /Success!$/)
      }
      for (const file of gone.map((name) => join(folder, name)).filter((each) => loaded.has(each))) {
        await expect(settings, [`del ssl crt-list ${folder} ${file}`, `del ssl cert ${file}`], /deleted/)
      }
      served = new Map([...before, ...changed])
      for (const name of gone) served.delete(name)
    },

    forget() {
      served = undefined
    },
  }
}

async function expect({ runtimeSocket }: ProxySettings, commands: string[], success: RegExp): Promise<void> {
  for await (const { command, answer } of converse(runtimeSocket, commands)) {
    if (!success.test(answer)) throw new RuntimeError(`HAProxy answered ${answer} to ${command.split('\n')[0]}`)
  }
}

/** Without empty lines, since one ends a payload on the runtime socket. */
async function pemFiles(folder: string): Promise<Map<string, string>> {
  const names = (await readdir(folder)).filter((name) => /^[\w.@+-]+\.pem$/.test(name)).sort()
  const texts = await Promise.all(names.map((name) => readFile(join(folder, name), 'latin1').catch(() => '')))
  return new Map(
    names.map((name, index) => [name, (texts[index] ?? '').replaceAll(/\r?\n(\r?\n)+/g, '\n').trimStart()]),
  )
}

function faultOf(pem: string): string | undefined {
  try {
    const isOwnKey = new X509Certificate(pem).checkPrivateKey(createPrivateKey(pem))
    if (!isOwnKey) return 'its key is not that of its first certificate'
    return pem.length < 24_000 ? undefined : 'it is too long for the runtime socket'
  } catch (error) {
    return (error as Error).message
  }
}
