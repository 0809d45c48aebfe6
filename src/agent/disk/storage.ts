import { basename, join } from 'node:path'
import type { Clock } from '../../kernel/clock.ts'
import type { Stop, Timing } from '../../kernel/timing.ts'
import { type Files, type OpenFile, writeAtomically } from './files.ts'

/**
 * Longer than the agent waits before it retries any failed write. A fault older than this belongs to a file that nothing
 * writes any more.
 */
const forgottenAfterMs = 60_000

/** Records which files could not be written, so that a full disk shows before a change is lost. */
export function watchStorage(files: Files, clock: Clock) {
  const faults = new Map<string, { reason: string; at: number }>()
  let failures = 0

  async function watched<Result>(file: string, work: () => Promise<Result>): Promise<Result> {
    try {
      return await work()
    } catch (error) {
      failures++
      faults.delete(file)
      faults.set(file, { reason: reasonOf(error as NodeJS.ErrnoException, file), at: clock() })
      throw error
    }
  }
  const isWritten = (file: string) => faults.delete(file)

  const watchedFiles: Files = {
    ...files,
    async open(file, how, mode) {
      const opened: OpenFile = await watched(file, () => files.open(file, how, mode))
      return {
        write: (part) => watched(file, () => opened.write(part)),
        async sync() {
          await watched(file, opened.sync)
          isWritten(file)
        },
        truncate: (length) => watched(file, () => opened.truncate(length)),
        close: () => watched(file, opened.close),
      }
    },
    async rename(from, to) {
      await watched(from, () => files.rename(from, to))
      isWritten(from)
    },
    async syncFolder(folder) {
      await watched(folder, () => files.syncFolder(folder))
      isWritten(folder)
    },
    async makeFolder(folder, mode) {
      await watched(folder, () => files.makeFolder(folder, mode))
      isWritten(folder)
    },
    async remove(file) {
      await watched(file, () => files.remove(file))
      isWritten(file)
    },
  }

  return {
    files: watchedFiles,
    /** Reason of the latest failed write that has not succeeded since. */
    fault(): string | undefined {
      for (const [file, { at }] of faults) if (clock() - at > forgottenAfterMs) faults.delete(file)
      return [...faults.values()].at(-1)?.reason
    },
    failures: (): number => failures,
  }
}
export type Storage = ReturnType<typeof watchStorage>

const probeEveryMs = 15_000
/** Larger than what any file system stores inline beside a file name. */
const probed = Buffer.alloc(4_096)

/** Writes regularly, so that a full disk is detected before a change arrives and for as long as it stays full. */
export const probeStorage = ({ files }: Pick<Storage, 'files'>, folder: string, timing: Pick<Timing, 'every'>): Stop =>
  timing.every(probeEveryMs, () => void writeAtomically(files, join(folder, 'disk.check'), [probed]).catch(() => {}))

const reasonOf = ({ code, message }: NodeJS.ErrnoException, file: string): string =>
  `cannot write ${basename(file).replace(/\.new$/, '')}: ${sentences[code ?? ''] ?? message.slice(0, 200)}`

const sentences: Record<string, string> = {
  ENOSPC: 'no space left on the disk',
  EDQUOT: 'the disk quota is used up',
  EROFS: 'the file system is read-only',
  EIO: 'the disk failed',
  EACCES: 'permission denied',
}
