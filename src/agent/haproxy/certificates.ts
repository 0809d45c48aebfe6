import { hash, X509Certificate } from 'node:crypto'
import { type FSWatcher, type Stats, watch } from 'node:fs'
import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { dnsNames } from '../../kernel/crypto/certificate.ts'
import { pemFault } from '../certificates/pem_fault.ts'
import { type Files, writeAtomically } from '../disk/files.ts'
import { fingerprintOf, isServed, type LoadedCertificates } from './comparison/certificate_comparison.ts'
import type { Difference } from './comparison/difference.ts'
import { createOperatorList } from './operator_list.ts'
import { ask, converse, RuntimeError } from './process/runtime.ts'
import { loadedCertificateFolder, operatorList, type ProxySettings } from './settings.ts'

export type Certificates = {
  /** Runs before HAProxy starts or reloads, and fills HAProxy's folder with exactly the usable files of the operator. */
  prepare: () => Promise<void>
  /** Changes a running HAProxy without a reload, which would cost connections and the memory of another worker. */
  load: () => Promise<void>
  stop: () => void
  /** The file served for each name. A new map object after every change. */
  names: () => ReadonlyMap<string, string>
  /** Earliest expiry among these files; infinite if there are none. */
  expiry: () => number
  loaded: () => LoadedCertificates | undefined
  /** Content of a file; undefined if the file is gone. */
  pem: (file: string) => Promise<string | undefined>
  /** Excludes these names, which have lines of their own in the other crt-list. */
  reserve: (names: ReadonlySet<string>, isRunning: boolean) => Promise<void>
  /** Lines that a running HAProxy lacks, or has but should not have. */
  lineDifferences: () => Promise<Difference[]>
}

/** Fallback for file systems without change notifications, such as some network file systems. */
const lookAnywayMs = 60_000
/** A file changed this shortly before it was read may change again without a different time stamp. */
const stableAfterMs = 2_000

/** The last read of an operator's file: its stat signature, and the hash of its content. */
type Seen = { signature: string; digest: string; fault: string | undefined }

/**
 * HAProxy does not start if one certificate in its folder is unreadable. It therefore gets its own folder with copies of
 * the usable ones; a broken replacement leaves the last good copy in force.
 *
 * Files are read again only if their stat signature changes, and checked only after the system reports a change in the
 * folder: a thousand of them took a fifth of a core before.
 */
export function certificatesOf(settings: ProxySettings, disk: Files, report: (problem: Error) => void): Certificates {
  const folder = loadedCertificateFolder(settings)
  const files = createReader(settings.certificateFolder)
  /** Hash of each certificate in HAProxy, by file name. */
  let served: Map<string, string> | undefined
  /** Hash of each copy, by file name. */
  let copies: Map<string, string> | undefined
  const reported = new Map<string, string>()
  const names = createNames(folder)
  const list = createOperatorList(settings, disk)
  const changes = watchFolder(settings.certificateFolder)

  async function copy(): Promise<{ changed: Map<string, string>; gone: string[] }> {
    await disk.makeFolder(folder, 0o700)
    copies ??= await digests(folder)
    const wanted = new Set(await pemNames(settings.certificateFolder))
    const changed = new Map<string, string>()
    let isSettled = true
    for (const name of wanted) {
      const { text, digest, fault } = await files.read(name)
      if (!files.isSettled(name)) isSettled = false
      if (fault !== undefined) {
        if (reported.get(name) !== digest) report(new Error(`the certificate ${name} cannot be used: ${fault}`))
        reported.set(name, digest)
        continue
      }
      if (copies.get(name) !== digest) {
        const content = text ?? normal(await readFile(join(settings.certificateFolder, name), 'latin1'))
        await writeAtomically(disk, join(folder, name), [content])
        copies.set(name, digestOf(content))
      }
      const copied = copies.get(name) ?? digest
      if (served?.get(name) !== copied) changed.set(name, copied)
    }
    const gone = [...new Set([...copies.keys(), ...(served?.keys() ?? [])])].filter((name) => !wanted.has(name))
    for (const name of gone) {
      await disk.remove(join(folder, name))
      copies.delete(name)
    }
    files.keep(wanted)
    await names.follow(copies)
    if (!isSettled) changes.lookAgain()
    return { changed, gone }
  }

  return {
    async prepare() {
      copies = undefined
      await copy()
      await list.prepare(names.ofFiles())
      served = await digests(folder)
    },

    async load() {
      if (served && !changes.isDue()) return
      const before = served ?? new Map<string, string>()
      changes.looking()
      const { changed, gone } = await copy().catch((error) => {
        changes.lookAgain()
        throw error
      })
      if (changed.size === 0 && gone.length === 0) {
        served ??= before
        return
      }
      // Unset until everything has worked, so that a failure retries all of it.
      served = undefined
      await change(settings, { changed: [...changed.keys()], gone }, (isNew) => list.update(names.ofFiles(), isNew))
      served = new Map([...before, ...changed])
      for (const name of gone) served.delete(name)
    },

    ...names.known,
    loaded: () => served && new Map([...served].map(([name, digest]) => [join(folder, name), digest])),
    pem: async (file) => (await disk.read(join(folder, file)).catch(() => undefined))?.toString('latin1'),
    reserve: list.reserve,
    lineDifferences: list.differences,
    stop: changes.stop,
  }
}

/** Tracks the names in each copy. Parses each copy once. */
function createNames(folder: string) {
  const ofFile = new Map<string, { digest: string; names: readonly string[]; notAfter: number }>()
  let all: ReadonlyMap<string, string> = new Map()
  return {
    known: {
      names: () => all,
      expiry: () =>
        ofFile.values().reduce((first, { notAfter }) => Math.min(first, notAfter), Number.POSITIVE_INFINITY),
    },
    ofFiles: () => new Map([...ofFile].map(([file, each]) => [file, each.names])),
    async follow(copies: ReadonlyMap<string, string>): Promise<void> {
      let isCurrent = true
      for (const file of ofFile.keys()) if (!copies.has(file) && ofFile.delete(file)) isCurrent = false
      for (const [file, digest] of copies) {
        if (ofFile.get(file)?.digest === digest) continue
        ofFile.set(file, { digest, ...contentsOf(await readFile(join(folder, file), 'latin1').catch(() => '')) })
        isCurrent = false
      }
      if (!isCurrent) all = new Map([...ofFile].flatMap(([file, { names }]) => names.map((name) => [name, file])))
    },
  }
}

/** The names that HAProxy uses: the subject alternative names and the common name. */
function contentsOf(pem: string): { names: string[]; notAfter: number } {
  try {
    const certificate = new X509Certificate(pem)
    const [, common] = /^CN=(.+)$/m.exec(certificate.subject ?? '') ?? []
    const names = [...dnsNames(certificate), ...(common ? [common.toLowerCase()] : [])]
    return { names, notAfter: certificate.validToDate.getTime() }
  } catch {
    return { names: [], notAfter: Number.POSITIVE_INFINITY }
  }
}

/** Reads a file again only if its stat signature changes. */
function createReader(folder: string) {
  const seen = new Map<string, Seen>()
  return {
    /** Includes the text if the file was read by this call. */
    async read(name: string): Promise<{ text?: string } & Seen> {
      const file = join(folder, name)
      const facts = await stat(file).catch(() => undefined)
      const signature = facts ? signatureOf(facts) : ''
      const known = seen.get(name)
      if (known && signature && known.signature === signature) return known
      const text = normal(await readFile(file, 'latin1').catch(() => ''))
      const found = { signature, digest: digestOf(text), fault: pemFault(text) }
      if (facts && Date.now() - facts.mtimeMs > stableAfterMs) seen.set(name, found)
      else seen.delete(name)
      return { ...found, text }
    },
    /** False if the file changed so recently that it has to be read again. */
    isSettled: (name: string): boolean => seen.has(name),
    keep(names: ReadonlySet<string>): void {
      for (const name of seen.keys()) if (!names.has(name)) seen.delete(name)
    },
  }
}

/** Changes a running HAProxy. `list` updates its crt-list. */
async function change(
  settings: ProxySettings,
  { changed, gone }: { changed: readonly string[]; gone: readonly string[] },
  list: (isNew: (name: string) => boolean) => Promise<void>,
): Promise<void> {
  const folder = loadedCertificateFolder(settings)
  const loaded = new Set((await ask(settings.runtimeSocket, 'show ssl cert')).split('\n'))
  const isNew = (name: string): boolean => !loaded.has(join(folder, name))
  for (const name of changed) await put(settings, name, isNew(name))
  await list(isNew)
  for (const name of changed) await expectServed(settings, name)
  for (const file of gone.map((name) => join(folder, name))) if (loaded.has(file)) await drop(settings, file)
}

async function put(settings: ProxySettings, name: string, isNew: boolean): Promise<void> {
  const folder = loadedCertificateFolder(settings)
  const file = join(folder, name)
  const text = await readFile(file, 'latin1')
  if (isNew) await expect(settings, [`new ssl cert ${file}`], /^New empty/)
  await expect(settings, [`set ssl cert ${file} <<\n${text}`], /^Transaction (created|updated)/)
  await expect(settings, [`commit ssl cert ${file}`], /Success!$/)
}

async function expectServed(settings: ProxySettings, name: string): Promise<void> {
  const file = join(loadedCertificateFolder(settings), name)
  const text = await readFile(file, 'latin1')
  await expect(settings, [`show ssl cert ${file}`], { test: (answer) => isServed(answer, fingerprintOf(text)) })
}

const drop = (settings: ProxySettings, file: string): Promise<void> =>
  expect(settings, [`del ssl crt-list ${operatorList(settings)} ${file}`, `del ssl cert ${file}`], /deleted/)

function watchFolder(folder: string) {
  let isDue = true
  let lookAt = 0
  let watcher: FSWatcher | undefined
  function begin(): void {
    if (watcher) return
    try {
      watcher = watch(folder, { persistent: false }, () => {
        isDue = true
      })
      watcher.on('error', end)
    } catch {
      // Without a watcher, `isDue` is always true.
    }
  }
  function end(): void {
    watcher?.close()
    watcher = undefined
    isDue = true
  }
  return {
    isDue: (): boolean => isDue || watcher === undefined || Date.now() >= lookAt,
    /** Changes after this call are either part of this check or make another one due. */
    looking(): void {
      begin()
      isDue = false
      lookAt = Date.now() + lookAnywayMs
    },
    lookAgain(): void {
      isDue = true
    },
    stop: () => watcher?.close(),
  }
}

async function expect(
  { runtimeSocket }: ProxySettings,
  commands: string[],
  success: Pick<RegExp, 'test'>,
): Promise<void> {
  for await (const { command, answer } of converse(runtimeSocket, commands)) {
    if (!success.test(answer)) throw new RuntimeError(`HAProxy answered ${answer} to ${command.split('\n')[0]}`)
  }
}

const pemNames = async (folder: string): Promise<string[]> =>
  (await readdir(folder)).filter((name) => /^[\w.@+-]+\.pem$/.test(name)).sort()

/** Removes empty lines, because one ends a payload on the runtime socket. */
const normal = (text: string): string => text.replaceAll(/\r?\n(\r?\n)+/g, '\n').trimStart()
const digestOf = (text: string): string => hash('sha256', text, 'hex')
const signatureOf = ({ ino, size, mtimeMs, ctimeMs }: Stats): string => [ino, size, mtimeMs, ctimeMs].join(' ')

async function digests(folder: string): Promise<Map<string, string>> {
  const names = await pemNames(folder)
  const texts = await Promise.all(names.map((name) => readFile(join(folder, name), 'latin1').catch(() => '')))
  return new Map(names.map((name, index) => [name, digestOf(normal(texts[index] ?? ''))]))
}
