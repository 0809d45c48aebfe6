import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Readable, Writable } from 'node:stream'
import { changeUrl, readDatabaseUrl } from '../kernel/database_url.ts'
import { BackupFault } from './fault.ts'

/** Debian package of each program. */
const packages = { age: 'age', pg_dump: 'postgresql-client', pg_restore: 'postgresql-client' } as const
type Program = keyof typeof packages

export type Running = {
  stdin: Writable
  stdout: Readable
  /** Rejects with the program's error output if it fails. */
  ended: Promise<void>
  /** Writes the whole part, with backpressure. */
  write: (part: Uint8Array) => Promise<void>
  kill: () => void
}

export function start(program: Program, args: readonly string[], env: Record<string, string> = {}): Running {
  const child = spawn(program, args, { env: { ...process.env, LC_ALL: 'C', ...env }, stdio: ['pipe', 'pipe', 'pipe'] })
  let said = ''
  child.stderr.on('data', (text: Buffer) => {
    said = `${said}${text}`.slice(-2_000)
  })
  const ended = endOf(child, program, () => said)
  // The caller may await it later; until then a failure must not count as unhandled.
  ended.catch(() => {})
  child.stdin.on('error', () => {})
  return {
    stdin: child.stdin,
    stdout: child.stdout,
    ended,
    async write(part) {
      if (child.stdin.write(part)) return
      // A program that exits before reading everything has failed, and `ended` holds the reason.
      await Promise.race([once(child.stdin, 'drain').catch(() => ended), ended])
    },
    kill: () => void child.kill('SIGKILL'),
  }
}

async function endOf(child: ChildProcess, program: Program, said: () => string): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  child.once('error', (error: NodeJS.ErrnoException) =>
    reject(
      error.code === 'ENOENT'
        ? new BackupFault(`${program} is not installed. On Debian: apt install ${packages[program]}`)
        : error,
    ),
  )
  child.once('close', (code, signal) => {
    if (code === 0) resolve()
    else reject(new BackupFault(`${program} failed: ${oneLine(said()) || (signal ?? `exit code ${code}`)}`))
  })
  return promise
}

/** Drops the line in which age asks for bug reports. */
const oneLine = (text: string): string =>
  text
    .split('\n')
    .filter((line) => line.trim() && !line.includes('report unexpected'))
    .map((line) => line.trim().replace(/^(age|pg_\w+): error: /, ''))
    .join('; ')

/** Version line of the program; undefined if it is not installed. */
export async function versionOf(program: Program): Promise<string | undefined> {
  const { stdout, ended } = start(program, ['--version'])
  let text = ''
  stdout.on('data', (part: Buffer) => {
    text += part
  })
  return ended.then(
    () => text.trim(),
    () => undefined,
  )
}

/**
 * Gives PostgreSQL's programs a URL without the password, since command lines are public on the machine, and the
 * password in a file that only this user can read.
 */
export async function withPasswordFile<Result>(
  databaseUrl: string,
  work: (url: string, env: Record<string, string>) => Promise<Result>,
): Promise<Result> {
  const { password } = readDatabaseUrl(databaseUrl)
  const url = changeUrl(databaseUrl, (its) => Object.assign(its, { password: '' }))
  if (!password) return work(url, {})
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-backup-'))
  try {
    await chmod(folder, 0o700)
    const file = join(folder, 'pgpass')
    await writeFile(file, `*:*:*:*:${password.replaceAll(/[\\:]/g, '\\$&')}\n`, { mode: 0o600 })
    return await work(url, { PGPASSFILE: file })
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
