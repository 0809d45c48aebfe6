import { basename } from 'node:path'
import { diskFiles, type Files } from '../../src/agent/disk/files.ts'

export type Operation = {
  kind: 'open' | 'write' | 'sync' | 'truncate' | 'rename' | 'syncFolder' | 'makeFolder' | 'remove'
  file: string
}
/** Whether an operation fails. */
export type Fault = (operation: Operation) => boolean

/** A real disk on which operations can be made to fail. A write that fails leaves half of it in the file. */
export function faultyFiles(onFailure: (name: string) => void = () => {}) {
  let fault: Fault = () => false

  async function attempt<Result>(operation: Operation, work: () => Promise<Result>): Promise<Result> {
    if (!fault(operation)) return work()
    const name = nameOf(operation)
    onFailure(name)
    throw Object.assign(new Error(`ENOSPC: no space left on device, ${name}`), { code: 'ENOSPC' })
  }

  const files: Files = {
    ...diskFiles,
    open: (file, how, mode) =>
      attempt({ kind: 'open', file }, async () => {
        const opened = await diskFiles.open(file, how, mode)
        return {
          write: (part) =>
            attempt({ kind: 'write', file }, () => opened.write(part)).catch(async (error) => {
              await opened.write(part.slice(0, part.length / 2))
              throw error
            }),
          sync: () => attempt({ kind: 'sync', file }, opened.sync),
          truncate: (length) => attempt({ kind: 'truncate', file }, () => opened.truncate(length)),
          close: opened.close,
        }
      }),
    rename: (from, to) => attempt({ kind: 'rename', file: to }, () => diskFiles.rename(from, to)),
    syncFolder: (folder) => attempt({ kind: 'syncFolder', file: folder }, () => diskFiles.syncFolder(folder)),
    makeFolder: (folder, mode) =>
      attempt({ kind: 'makeFolder', file: folder }, () => diskFiles.makeFolder(folder, mode)),
    remove: (file) => attempt({ kind: 'remove', file }, () => diskFiles.remove(file)),
  }

  return {
    files,
    failWhen(next: Fault): void {
      fault = next
    },
    heal(): void {
      fault = () => false
    },
  }
}

/** Files that are named by a hash or an id are one and the same here. */
const nameOf = ({ kind, file }: Operation): string => `${kind} ${basename(file).replace(/^[0-9a-f]{40,64}/, '<hash>')}`
