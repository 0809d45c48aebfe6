import { dirname } from 'node:path'
import type { Files, OpenFile } from '../../src/agent/disk/files.ts'
import type { Process, Scheduler } from './scheduler.ts'

type Inode = { content: Buffer; synced: Buffer }
/** `full`: nothing is written. `nearly`: only what is appended to a file that is there. */
export type Space = 'free' | 'nearly' | 'full'

const noSpace = () => Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC' })

/** A disk that outlives processes. What was not synced may be gone after a power failure, or be there in part. */
export function createDisk(scheduler: Scheduler, name: string) {
  const { chance } = scheduler
  const inodes = new Map<string, Inode>()
  /** Names as they are after a power failure, and what has happened to them since, by folder. */
  const syncedNames = new Map<string, Inode>()
  let pending: { folder: string; redo: () => void }[] = []
  let space: Space = 'free'
  let isFailing = false

  function rename(file: string, inode: Inode | undefined): void {
    const change = (names: Map<string, Inode>) => (inode ? names.set(file, inode) : names.delete(file))
    change(inodes)
    pending.push({ folder: dirname(file), redo: () => change(syncedNames) })
  }

  /** Being written, and not in the place of the old one yet. */
  const isNew = (file: string, inode: Inode): boolean => file.endsWith('.new') && inodes.get(file) === inode

  const filesOf = (process: Process): Files => {
    const wait = <Result>(work: () => Result) => scheduler.takes(process, chance.next() * 3, work)
    const fail = () => {
      if (!isFailing) return
      throw Object.assign(new Error('EIO: i/o error'), { code: 'EIO' })
    }
    const opened = (file: string, inode: Inode): OpenFile => ({
      write: (part) =>
        wait(() => {
          const bytes = Buffer.from(part as string)
          const isRefused = isFailing || space === 'full' || (space === 'nearly' && isNew(file, inode))
          const written = isRefused ? bytes.subarray(0, chance.below(bytes.length)) : bytes
          inode.content = Buffer.concat([inode.content, written])
          fail()
          if (isRefused) throw noSpace()
        }),
      sync: () =>
        wait(() => {
          fail()
          inode.synced = inode.content
        }),
      truncate: (length) =>
        wait(() => {
          fail()
          inode.content = inode.content.subarray(0, length)
        }),
      close: () => wait(() => {}),
    })
    return {
      open: (file, how) =>
        wait(() => {
          fail()
          const known = inodes.get(file)
          if (!known && space === 'full') throw noSpace()
          const inode = known ?? { content: Buffer.alloc(0), synced: Buffer.alloc(0) }
          if (!known) rename(file, inode)
          if (how === 'empty') inode.content = Buffer.alloc(0)
          return opened(file, inode)
        }),
      rename: (from, to) =>
        wait(() => {
          fail()
          const inode = inodes.get(from)
          if (!inode) throw Object.assign(new Error(`ENOENT: ${from}`), { code: 'ENOENT' })
          rename(from, undefined)
          rename(to, inode)
        }),
      syncFolder: (folder) =>
        wait(() => {
          fail()
          for (const each of pending) if (each.folder === folder) each.redo()
          pending = pending.filter((each) => each.folder !== folder)
        }),
      makeFolder: () => wait(() => {}),
      remove: (file) => wait(() => void (inodes.has(file) && rename(file, undefined))),
      read: (file) => wait(() => inodes.get(file)?.content),
      async *readPieces(file) {
        const content = await wait(() => inodes.get(file)?.content)
        if (content) yield content
      },
      size: (file) => wait(() => inodes.get(file)?.content.length),
      list: (folder) =>
        wait(() =>
          [...inodes.keys()].filter((file) => dirname(file) === folder).map((file) => file.slice(folder.length + 1)),
        ),
    }
  }

  return {
    filesOf,
    /** As HAProxy reads it: at once. */
    textOf: (file: string): string | undefined => inodes.get(file)?.content.toString(),
    has: (file: string, bytes: number): boolean => inodes.get(file)?.content.length === bytes,
    setSpace(next: Space): void {
      if (next !== space)
        scheduler.tell(name, `the disk is ${next === 'free' ? 'free again' : next === 'full' ? 'full' : 'nearly full'}`)
      space = next
    },
    setFailing(next: boolean): void {
      if (next !== isFailing) scheduler.tell(name, next ? 'the disk fails' : 'the disk works again')
      isFailing = next
    },
    /** Keeps a random part of the writes that were not synced: the first names, and the beginning of contents. */
    losePower(): void {
      for (const { redo } of pending.slice(0, chance.below(pending.length + 1))) redo()
      pending = []
      inodes.clear()
      for (const [file, inode] of syncedNames) {
        const { content, synced } = inode
        const isLonger = content.length > synced.length && content.subarray(0, synced.length).equals(synced)
        const kept = isLonger ? content.subarray(0, chance.between(synced.length, content.length)) : synced
        inodes.set(file, { content: kept, synced: kept })
      }
      syncedNames.clear()
      for (const [file, inode] of inodes) syncedNames.set(file, inode)
    },
    wipe(): void {
      inodes.clear()
      syncedNames.clear()
      pending = []
    },
  }
}
export type Disk = ReturnType<typeof createDisk>
