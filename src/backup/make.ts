import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { type FileHandle, lstat, open, readdir, readFile, rename, rm, stat } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { type Db, type DbPool, one } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { snapshot } from '../db/transaction.ts'
import { archiveWriter, type Manifest } from './archive.ts'
import { contentsOf, sequencesOf } from './contents.ts'
import { BackupFault, fileFault } from './fault.ts'
import { type Running, start, withPasswordFile } from './programs.ts'

export type BackupRequest = {
  db: DbPool
  databaseUrl: string
  /** File of public keys to encrypt to, in the format of age. */
  recipientsFile: string
  /** Files and folders to add. Missing ones are skipped. */
  include: readonly string[]
  /** It must not exist. */
  target: string
  programVersion: string
  /** Aborts and removes the partial file. */
  signal: AbortSignal
}
export type Made = { file: string; bytes: number; sha256: string; snapshotAt: Date; manifest: Manifest }

/** Unfinished backups, including those of killed processes. A finished backup never has such a name. */
const partialPrefix = '.partial-'
export const isPartial = (name: string): boolean => name.startsWith(partialPrefix)

/** Backs up the database and the requested files into one file, which appears once it is complete and on disk. */
export async function makeBackup(request: BackupRequest): Promise<Made> {
  const file = resolve(request.target)
  if (existsSync(file)) throw new BackupFault(`${file} exists already, and is not overwritten`)
  if (!existsSync(request.recipientsFile))
    throw new BackupFault(
      `${request.recipientsFile} does not exist. Put the public key into it that backups are encrypted to; 'age-keygen' makes a pair`,
    )
  const partial = join(dirname(file), `${partialPrefix}${process.pid}-${basename(file)}`)
  const handle = await open(partial, 'wx', 0o600).catch((error) => {
    throw fileFault(`cannot write to ${dirname(file)}`, error)
  })
  try {
    const written = await withPasswordFile(request.databaseUrl, (url, env) =>
      snapshot(request.db, (db) => writeSnapshot(db, request, { url, env, handle, partial })),
    )
    await onDisk(partial, () => handle.sync())
    await handle.close()
    await rename(partial, file)
    await syncFolder(dirname(file))
    return { file, ...written }
  } catch (error) {
    await handle.close().catch(() => {})
    await rm(partial, { force: true })
    throw error
  }
}

type Output = { url: string; env: Record<string, string>; handle: FileHandle; partial: string }

async function writeSnapshot(db: Db, request: BackupRequest, output: Output): Promise<Omit<Made, 'file'>> {
  const { id, at, version } = await one<{ id: string; at: string; version: string }>(
    db,
    sql`select pg_export_snapshot() as id, now()::text as at, current_setting('server_version') as version`,
  )
  const snapshotAt = new Date(at)
  // Before pg_dump reads them: a recorded value higher than the dumped one would look like a loss.
  const sequences = await sequencesOf(db)
  const age = start('age', ['--encrypt', '--recipients-file', request.recipientsFile])
  const pgDump = start('pg_dump', ['--format=custom', `--snapshot=${id}`, `--dbname=${output.url}`], output.env)
  const [programs, stop] = [[age, pgDump], Promise.withResolvers<never>()]
  const onAbort = () => stop.reject(new BackupFault('the backup was stopped'))
  request.signal.addEventListener('abort', onAbort)
  if (request.signal.aborted) onAbort()
  try {
    const archive = archiveWriter(age, snapshotAt)
    const writing = async () => {
      await archive.begin()
      for (const path of request.include) await addFiles(archive, path)
      const dump = await archive.dump(pgDump.stdout)
      await pgDump.ended
      const facts = { ...(await contents), sequences, snapshot_at: snapshotAt.toISOString(), dump }
      await archive.end({ ...facts, program_version: request.programVersion, postgresql_version: version })
      age.stdin.end()
      return facts
    }
    const contents = contentsOf(db)
    const [facts, written] = await Promise.race([
      Promise.all([writing(), writeOut(age, output), contents, ...programs.map(({ ended }) => ended)]),
      stop.promise,
    ])
    return { ...written, snapshotAt, manifest: facts as Manifest }
  } catch (error) {
    for (const program of programs) program.kill()
    throw error
  } finally {
    request.signal.removeEventListener('abort', onAbort)
  }
}

async function writeOut({ stdout }: Running, { handle, partial }: Output): Promise<{ bytes: number; sha256: string }> {
  const hash = createHash('sha256')
  let bytes = 0
  for await (const part of stdout as AsyncIterable<Buffer>) {
    // `writeFile` writes everything or fails; on a full disk, `write` may write only a part without an error.
    await onDisk(partial, () => handle.writeFile(part))
    hash.update(part)
    bytes += part.length
  }
  return { bytes, sha256: hash.digest('hex') }
}

async function onDisk<Result>(file: string, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work()
  } catch (error) {
    throw fileFault(`cannot write to ${dirname(file)}`, error)
  }
}

/** Skips symbolic links, because their targets may be anywhere. */
async function addFiles(archive: ReturnType<typeof archiveWriter>, path: string): Promise<void> {
  const found = await lstat(path).catch(() => undefined)
  if (found?.isDirectory()) for (const name of (await readdir(path)).sort()) await addFiles(archive, join(path, name))
  if (!found?.isFile()) return
  const content = await readFile(path).catch((error) => {
    throw fileFault(`cannot read ${path}`, error)
  })
  await archive.file(resolve(path).slice(1), content, found.mode)
}

export async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

const namePattern = /^gatehouse-\d{8}T\d{6}Z\.age$/
/** Sorting by name sorts by time. */
export const nameOf = (now: Date): string =>
  `gatehouse-${now
    .toISOString()
    .replaceAll(/[-:]/g, '')
    .replace(/\.\d+Z$/, 'Z')}.age`

const dayMs = 24 * 60 * 60 * 1_000

/** Keeps the newest backups named by `nameOf`, and removes partial files older than a day. */
export async function removeOld(folder: string, keep: number, now: number): Promise<string[]> {
  const names = (await readdir(folder)).sort()
  const old = names.filter((name) => namePattern.test(name)).slice(0, -keep)
  for (const name of names.filter(isPartial))
    if ((await stat(join(folder, name))).mtimeMs < now - dayMs) await rm(join(folder, name), { force: true })
  for (const name of old) await rm(join(folder, name), { force: true })
  await syncFolder(folder)
  return old
}
