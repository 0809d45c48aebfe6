import { diskFiles, type Files, type OpenFile } from '../disk/files.ts'
import type { Sink } from './destination.ts'

export type Rotation = { readonly maxBytes: number; readonly files: number }

/**
 * Writes to `path` and keeps up to `files - 1` rotated files, `path.1`, `path.2` and so on, of at most `maxBytes` each.
 */
export function fileSink(path: string, { maxBytes, files: count }: Rotation, disk: Files = diskFiles): Sink {
  let handle: OpenFile | undefined
  let size = 0

  async function openFile(): Promise<OpenFile> {
    handle = await disk.open(path, 'append', 0o640)
    size = (await disk.size(path)) ?? 0
    return handle
  }
  async function rotate(): Promise<void> {
    await handle?.close()
    handle = undefined
    for (let index = count - 1; index > 0; index--)
      await disk.rename(index === 1 ? path : `${path}.${index - 1}`, `${path}.${index}`).catch(ignoreMissing)
    if (count === 1) await disk.remove(path)
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
        await file.write(bytes)
        size += bytes.length
      } catch (error) {
        // A full disk may have stored part of the line; without this, the retry would continue on the same line.
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

function ignoreMissing(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOENT') throw error
}
