import { createReadStream } from 'node:fs'
import { type FileHandle, mkdir, open, readdir, readFile, rename, rm, stat } from 'node:fs/promises'
import { dirname } from 'node:path'

/** An open file. A failed write may have stored part of its data. */
export type OpenFile = {
  write: (part: string | Buffer) => Promise<void>
  /** Resolves once the data is on disk. */
  sync: () => Promise<void>
  truncate: (length: number) => Promise<void>
  close: () => Promise<void>
}

/** All disk operations of the agent, passed in so that a test can make each one fail. */
export type Files = {
  /** Every write appends. `empty` truncates the file first. */
  open: (file: string, how: 'empty' | 'append', mode?: number) => Promise<OpenFile>
  rename: (from: string, to: string) => Promise<void>
  /** A rename is durable only once its folder is synced. */
  syncFolder: (folder: string) => Promise<void>
  makeFolder: (folder: string, mode?: number) => Promise<void>
  /** Succeeds if the file does not exist. */
  remove: (file: string) => Promise<void>
  /** Undefined if the file does not exist. */
  read: (file: string) => Promise<Buffer | undefined>
  /** Yields nothing if the file does not exist. */
  readPieces: (file: string, pieceBytes: number) => AsyncIterable<Buffer>
  size: (file: string) => Promise<number | undefined>
  list: (folder: string) => Promise<string[]>
}

export const diskFiles: Files = {
  async open(file, how, mode = 0o600) {
    const handle = await open(file, 'a', mode)
    try {
      if (how === 'empty') await handle.truncate(0)
    } catch (error) {
      await handle.close()
      throw error
    }
    return {
      write: (part) => writeWhole(handle, Buffer.from(part as string)),
      sync: () => handle.datasync(),
      truncate: (length) => handle.truncate(length),
      close: () => handle.close(),
    }
  },
  rename,
  async syncFolder(folder) {
    const handle = await open(folder, 'r')
    try {
      await handle.sync()
    } finally {
      await handle.close()
    }
  },
  makeFolder: async (folder, mode) => void (await mkdir(folder, { recursive: true, ...(mode && { mode }) })),
  remove: (file) => rm(file, { force: true }),
  read: (file) => readFile(file).catch(whenMissing),
  async *readPieces(file, pieceBytes) {
    try {
      yield* createReadStream(file, { highWaterMark: pieceBytes })
    } catch (error) {
      whenMissing(error as NodeJS.ErrnoException)
    }
  },
  size: async (file) => (await stat(file).catch(whenMissing))?.size,
  list: readdir,
}

/** A nearly full disk may write less than requested and reports this only by the length. */
async function writeWhole(handle: FileHandle, bytes: Buffer): Promise<void> {
  for (let from = 0; from < bytes.length; ) from += (await handle.write(bytes, from)).bytesWritten
}

function whenMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error
}

/** Once this resolves, the whole new file survives a power cut. Before that, the whole old file does. */
export async function writeAtomically(
  files: Files,
  file: string,
  parts: Iterable<string | Buffer>,
  mode?: number,
): Promise<void> {
  const temporary = `${file}.new`
  const written = await files.open(temporary, 'empty', mode)
  try {
    for (const part of parts) await written.write(part)
    await written.sync()
  } finally {
    await written.close()
  }
  await files.rename(temporary, file)
  await files.syncFolder(dirname(file))
}

/**
 * For files that HAProxy reads at every start. If the write fails, the existing file is still good as long as it has the
 * same lines in any order.
 */
export async function writeOrKeep(files: Files, file: string, parts: () => Iterable<string>): Promise<void> {
  try {
    await writeAtomically(files, file, parts())
  } catch (error) {
    const sorted = (text: string) => text.split('\n').sort().join('\n')
    const found = await files.read(file).catch(() => undefined)
    if (found === undefined || sorted(found.toString()) !== sorted([...parts()].join(''))) throw error
  }
}

/** For files that are written at every start: a node with a full disk has to start too. */
export async function writeIfDifferent(files: Files, file: string, text: string): Promise<void> {
  if ((await files.read(file).catch(() => undefined))?.toString() !== text) await writeAtomically(files, file, [text])
}
