import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { open, readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'

/** The contents of every file, each by itself. */
export async function* filesOf(folder: string): AsyncGenerator<Buffer> {
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true }))
    if (entry.isFile()) yield await readFile(join(entry.parentPath, entry.name)).catch(() => Buffer.alloc(0))
}

/** The HAProxy processes that have this folder among their arguments. */
export const proxiesOf = (folder: string): number[] =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        return /haproxy/.test(readlinkSync(`/proc/${pid}/exe`)) && readFileSync(`/proc/${pid}/cmdline`).includes(folder)
      } catch {
        return false
      }
    })
    .map(Number)

const partBytes = 64 * 1024 * 1024

/** What these processes have in memory that they can write to. */
export async function* memoryOf(pids: readonly number[]): AsyncGenerator<Buffer> {
  for (const pid of pids) {
    const memory = await open(`/proc/${pid}/mem`, 'r')
    const regions = readFileSync(`/proc/${pid}/maps`, 'utf8').matchAll(/^([\da-f]+)-([\da-f]+) rw/gm)
    for (const [, from = '', to = ''] of regions) {
      const [first, end] = [Number.parseInt(from, 16), Number.parseInt(to, 16)]
      for (let at = first; at < end; at += partBytes) {
        const buffer = Buffer.alloc(Math.min(partBytes, end - at))
        const { bytesRead } = await memory.read(buffer, 0, buffer.length, at).catch(() => ({ bytesRead: 0 }))
        if (bytesRead > 0) yield buffer.subarray(0, bytesRead)
      }
    }
    await memory.close()
  }
}
