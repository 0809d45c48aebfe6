/** A backup cannot be made or used. The message is for the operator. */
export class BackupFault extends Error {
  override readonly name = 'BackupFault'
}

/** Translates a system error about a file into a message. */
export function fileFault(what: string, error: unknown): BackupFault {
  const { code = '', message } = error as NodeJS.ErrnoException
  const reasons: Record<string, string> = {
    ENOSPC: 'no space left on the disk',
    EDQUOT: 'the disk quota is used up',
    EROFS: 'the file system is read-only',
    EACCES: 'permission denied',
    ENOENT: 'there is no such file or folder',
    EIO: 'the disk fails',
  }
  return new BackupFault(`${what}: ${reasons[code] ?? message}`, { cause: error })
}
