import { type FileHandle, open, rename, rm } from 'node:fs/promises'
import type { Sink } from './destination.ts'

export type Rotation = { readonly maxBytes: number; readonly files: number }

/** `path`, and up to `files - 1` older ones as `path.1`, `path.2` and so on, of at most `maxBytes` each. */
export function fileSink(path: string, { maxBytes, files }: Rotation): Sink {
  let handle: FileHandle | undefined
  let size = 0

  async function openFile(): Promise<FileHandle> {
    handle = await open(path, 'a', 0o640)
    size = (await handle.stat()).size
    return handle
  }
  async function rotate(): Promise<void> {
    await handle?.close()
    handle = undefined
    for (let index = files - 1; index > 0; index--)
      await rename(index === 1 ? path : `${path}.${index - 1}`, `${path}.${index}`).catch(ignoreMissing)
    if (files === 1) await rm(path, { force: true })
  }

  return {
    name: 'file',
    batch: 500,
    async write(lines) {
      const bytes = Buffer.from(`${lines.join('\n')}\n`)
      const file = handle ?? (await openFile())
      if (size > 0 && size + bytes.length > maxBytes) {
        await rotate()
        return this.write(lines)
      }
      try {
        await writeWhole(file, bytes)
        size += bytes.length
      } catch (error) {
        // A full disk may have taken a part of it: the next try must begin with a line of its own.
        await file.truncate(size).catch(() => {})
        await file.close().catch(() => {})
        handle = undefined
        throw error
      }
    },
    async close() {
      await handle?.close()
    },
  }
}

async function writeWhole(file: FileHandle, bytes: Buffer): Promise<void> {
  for (let from = 0; from < bytes.length; ) from += (await file.write(bytes, from)).bytesWritten
}

function ignoreMissing(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOENT') throw error
}
