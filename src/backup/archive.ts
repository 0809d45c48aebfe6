import { createHash } from 'node:crypto'
import type { Contents } from './contents.ts'
import { BackupFault } from './fault.ts'
import { type Running, start } from './programs.ts'
import { type ReadEntry, tarEnd, tarEntries, tarHeader, tarPadding } from './tar.ts'

/** The last entry. A backup without it is incomplete. */
const manifestName = 'manifest.json'
const dumpName = 'database.dump'
export const filesFolder = 'files/'
/** A tar entry starts with its length, which pg_dump does not know in advance, so the dump is split into entries. */
const dumpPartBytes = 8 * 2 ** 20
const formatVersion = 1

export type Manifest = Contents & {
  format: number
  program_version: string
  postgresql_version: string
  /** Time of the snapshot. */
  snapshot_at: string
  dump: { bytes: number; sha256: string }
  files: Record<string, { bytes: number; sha256: string }>
}

const readme = `This is a backup of Gatehouse. 'gatehouse restore' restores it. Without Gatehouse:

  age --decrypt --identity KEY FILE | tar --extract
  cat ${dumpName}.* | pg_restore --no-owner --exit-on-error --dbname DATABASE

${manifestName} says what is in it. ${filesFolder} has settings and secrets, at the paths that they had. Edge nodes ignore the
restored database until 'gatehouse after-restore' has run.
`

type Sink = { write: (part: Uint8Array) => Promise<void> }

/** Writes the entries in the order that `readArchive` expects: README, files, parts of the dump, manifest. */
export function archiveWriter(sink: Sink, snapshotAt: Date) {
  const seconds = Math.floor(snapshotAt.getTime() / 1_000)
  const files: Manifest['files'] = {}
  async function entry(name: string, content: Uint8Array, mode = 0o600): Promise<void> {
    await sink.write(tarHeader({ name, size: content.length, mode }, seconds))
    await sink.write(content)
    await sink.write(tarPadding(content.length))
  }
  return {
    begin: () => entry('README', Buffer.from(readme), 0o644),
    async file(path: string, content: Buffer, mode: number): Promise<void> {
      await entry(`${filesFolder}${path}`, content, mode)
      files[path] = { bytes: content.length, sha256: createHash('sha256').update(content).digest('hex') }
    },
    async dump(source: AsyncIterable<Buffer>): Promise<Manifest['dump']> {
      const hash = createHash('sha256')
      let [bytes, count] = [0, 0]
      for await (const part of inParts(source)) {
        hash.update(part)
        bytes += part.length
        await entry(`${dumpName}.${String(count++).padStart(6, '0')}`, part)
      }
      return { bytes, sha256: hash.digest('hex') }
    },
    async end(facts: Omit<Manifest, 'format' | 'files'>): Promise<void> {
      const manifest: Manifest = { format: formatVersion, ...facts, files }
      await entry(manifestName, Buffer.from(`${JSON.stringify(manifest, null, 2)}\n`))
      await sink.write(tarEnd())
    },
  }
}

async function* inParts(source: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let [waiting, length]: [Buffer[], number] = [[], 0]
  for await (const piece of source) {
    waiting.push(piece)
    length += piece.length
    if (length < dumpPartBytes) continue
    yield Buffer.concat(waiting)
    ;[waiting, length] = [[], 0]
  }
  if (length > 0) yield Buffer.concat(waiting)
}

export type Receivers = {
  dump?: (part: Buffer) => Promise<void>
  file?: (path: string, content: Buffer, mode: number) => Promise<void>
}

/**
 * Decrypts a backup and streams its entries. Resolves once everything was read and matches the manifest; before that,
 * the streamed data may come from a damaged backup.
 */
export async function readArchive(file: string, identityFile: string, receivers: Receivers = {}): Promise<Manifest> {
  const age = start('age', ['--decrypt', '--identity', identityFile, file])
  age.stdin.end()
  try {
    const manifest = await readEntries(age, receivers)
    await age.ended
    return manifest
  } catch (error) {
    // Prefer the error of age; the archive reader sees only a truncated stream.
    await age.ended
    throw error
  } finally {
    age.kill()
  }
}

async function readEntries(age: Running, { dump, file }: Receivers): Promise<Manifest> {
  const dumpHash = createHash('sha256')
  let [dumpBytes, parts] = [0, 0]
  const files: Manifest['files'] = {}
  let manifest: Manifest | undefined
  for await (const entry of tarEntries(age.stdout)) {
    if (manifest) throw new BackupFault(`${entry.name} comes behind the manifest`)
    if (entry.name === manifestName) manifest = parseManifest(await contentOf(entry))
    else if (entry.name === `${dumpName}.${String(parts).padStart(6, '0')}`) {
      parts++
      for await (const piece of entry.content) {
        dumpHash.update(piece)
        dumpBytes += piece.length
        await dump?.(piece)
      }
    } else if (entry.name.startsWith(filesFolder)) {
      const [path, content] = [entry.name.slice(filesFolder.length), await contentOf(entry)]
      files[path] = { bytes: content.length, sha256: createHash('sha256').update(content).digest('hex') }
      await file?.(path, content, entry.mode)
    } else if (entry.name === 'README') await contentOf(entry)
    else throw new BackupFault(`${entry.name} is in the backup, which this version does not know`)
  }
  if (!manifest) throw new BackupFault('the backup is not whole: its manifest is missing')
  const found = { dump: { bytes: dumpBytes, sha256: dumpHash.digest('hex') }, files }
  if (JSON.stringify(found) !== JSON.stringify({ dump: manifest.dump, files: manifest.files }))
    throw new BackupFault('the backup is damaged: its contents are not those in its manifest')
  return manifest
}

const contentOf = async ({ content }: ReadEntry): Promise<Buffer> => Buffer.concat(await Array.fromAsync(content))

function parseManifest(content: Buffer): Manifest {
  const manifest: Manifest = JSON.parse(content.toString())
  if (manifest.format !== formatVersion)
    throw new BackupFault(
      `the backup has format ${manifest.format}, made by Gatehouse ${manifest.program_version}. Use that version or a newer one`,
    )
  return manifest
}
