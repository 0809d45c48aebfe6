import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { closeSync, openSync, renameSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import pg from 'pg'
import { asAppRole } from '../../dev/app_role.ts'
import { endWithUs } from '../../dev/run_on_exit.ts'
import { bootstrapAccount } from '../../src/commands/accounts/bootstrap.ts'
import { type DbPool, openPool } from '../../src/db/pool.ts'
import { createSecretsBox } from '../../src/kernel/crypto/secrets_box.ts'
import { type Client, createClient, publicUrl } from './client.ts'
import { loadScaledTimeout } from './load_scaled_timeout.ts'
import { program } from './program.ts'
import { testRun } from './test_run.ts'

export type LogLine = Record<string, unknown> & { msg: string; level: string }
export type ServeProcess = { origin: string; port: number; child: ChildProcess; log: LogLine[]; logFile: string }
export type Account = Client & { accountId: string; adminId: string }
export type ControlPlane = {
  processes: ServeProcess[]
  /** Direct database access, for what the API does not show. */
  db: DbPool
  databaseUrl: string
  newAccount: () => Promise<Account>
  clientFor: (token: string) => Client
  /** Another process on the same database. */
  startProcess: (env?: Record<string, string>) => Promise<ServeProcess>
}
type Options = {
  processes?: number
  env?: Record<string, string>
  /** The database to inspect, and to serve under this role. Default: a new database, served with least privilege. */
  databaseUrl?: string
  /** What the database should have before any process starts, which would otherwise have to notice it later. */
  prepare?: (db: DbPool) => Promise<unknown>
}
/** A test, a file (`after` of node:test) or a drill: anything that can run a clean-up. */
export type Scope = { after: (cleanUp: () => Promise<void>) => void }

/** A new database. It stays until the end of the run, when all databases are searched for tokens. */
export async function newDatabase(template = `${testRun.databasePrefix}template`): Promise<string> {
  const name = `${testRun.databasePrefix}${randomUUID().replaceAll('-', '')}`
  const url = new URL(testRun.postgresUrl)
  const client = new pg.Client({ connectionString: url.href })
  await client.connect()
  // Copied file by file, not page by page through the write-ahead log: a third of the work.
  await client.query(`create database ${name} template ${template} strategy file_copy`)
  await client.end()
  url.pathname = name
  return url.href
}

/**
 * Real processes of `gatehouse serve` on a database of their own: for tests with settings, that start or stop processes, or
 * that look at more than their accounts. Others use `sharedControlPlane`.
 */
export async function startControlPlane(
  scope: Scope,
  { processes: count = 1, env = {}, databaseUrl: given, prepare }: Options = {},
): Promise<ControlPlane> {
  const databaseUrl = given ?? (await newDatabase())
  const serveUrl = given ?? asAppRole(databaseUrl)
  const processes: ServeProcess[] = []
  const db = openPool({ url: databaseUrl, poolSize: 4, connectTimeoutMs: 60_000, statementTimeoutMs: 60_000 }, () => {})
  scope.after(async () => {
    await Promise.all(processes.map(({ child }) => stop(child)))
    await db.end()
  })
  const startProcess = async (extra: Record<string, string> = {}) => {
    const started = await serveProcess({ GATEHOUSE_DATABASE_URL: serveUrl, ...env, ...extra })
    processes.push(started)
    return started
  }
  await prepare?.(db)
  await Promise.all(Array.from({ length: count }, () => startProcess()))
  return { processes, db, databaseUrl, startProcess, ...callersOf(processes, db) }
}

/** Clients of these processes. */
export function callersOf(
  processes: readonly { origin: string }[],
  db: DbPool,
): Pick<ControlPlane, 'clientFor' | 'newAccount'> {
  const clientFor = (token: string) =>
    createClient(
      processes.map(({ origin }) => origin),
      token,
    )
  return {
    clientFor,
    async newAccount() {
      const wanted = { accountName: randomUUID(), adminName: 'Ada', adminEmail: 'ada@example.com' }
      const { accountId, adminId, token } = await bootstrapAccount(db, wanted, publicUrl)
      return Object.assign(clientFor(token), { accountId, adminId })
    },
  }
}

const secretsKey = Buffer.alloc(32, 'a key for tests')
export const secretsBox = createSecretsBox([secretsKey])

/** The same for all processes of a run. */
export function secretsKeyFile(): string {
  const file = join(testRun.folder, 'secrets.key')
  const written = `${file}-${randomUUID()}`
  writeFileSync(written, `${secretsKey.toString('base64')}\n`, { mode: 0o600 })
  // At once: another test file may start a process that reads it now.
  renameSync(written, file)
  return file
}

/** The time-out is generous, and nothing is limited: the tests are not about busy machines, and call as fast as they can. */
const harnessSettings = {
  GATEHOUSE_LISTEN: '127.0.0.1:0',
  GATEHOUSE_PUBLIC_URL: publicUrl,
  GATEHOUSE_DATABASE_TIMEOUT_MS: '30000',
  GATEHOUSE_REQUESTS_PER_MINUTE: '0',
  GATEHOUSE_FAILED_REQUESTS_PER_MINUTE: '0',
  // Most tests need names, not their proof.
  GATEHOUSE_DOMAIN_OWNERSHIP: 'trusted',
  // Nothing listens there, so queries fail immediately: a test that needs DNS has a server of its own.
  GATEHOUSE_DNS_SERVERS: '127.0.0.1:9',
}

async function serveProcess(env: Record<string, string>): Promise<ServeProcess> {
  const child = spawn(process.execPath, [program, 'serve'], {
    env: { ...process.env, ...harnessSettings, GATEHOUSE_SECRETS_KEY_FILE: secretsKeyFile(), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  // A test file that is killed for taking too long must not leave its servers behind.
  endWithUs(child, 'kill -9 "$0"')
  // At once: a stream would hand every line to another thread, and it is one line for each request.
  const logFile = join(testRun.folder, `serve-${child.pid}-${randomUUID()}.log`)
  const file = openSync(logFile, 'w')
  child.once('close', () => closeSync(file))
  child.stderr.on('data', (chunk: Buffer) => writeSync(file, chunk))
  child.stderr.pipe(process.stderr, { end: false })
  const log: LogLine[] = []
  const port = await new Promise<number>((resolve, reject) => {
    const fail = (what: string) =>
      reject(new Error(`gatehouse serve ${what} before it listened: ${JSON.stringify(log)}`))
    child.once('exit', (code) => fail(`ended with ${code}`))
    const limit = loadScaledTimeout(60_000)
    setTimeout(() => fail(`took more than ${limit} ms`), limit).unref()
    createInterface({ input: child.stdout }).on('line', (text) => {
      writeSync(file, `${text}\n`)
      const line = parseLine(text)
      log.push(line)
      if (line.msg === 'listening') resolve((line.address as { port: number }).port)
    })
  })
  return { origin: `http://127.0.0.1:${port}`, port, child, log, logFile }
}

/** A killed process may leave half a line. */
function parseLine(text: string): LogLine {
  try {
    return JSON.parse(text)
  } catch {
    return { level: 'unreadable', msg: text }
  }
}

export async function stop(child: ChildProcess, signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exited = once(child, 'exit')
  child.kill(signal)
  // A process that does not exit would block the whole run.
  const limit = loadScaledTimeout(60_000)
  const killer = setTimeout(() => child.kill('SIGKILL'), limit)
  await exited
  clearTimeout(killer)
  if (signal !== 'SIGKILL' && child.signalCode === 'SIGKILL')
    throw new Error(`process ${child.pid} did not end within ${limit} ms of ${signal}`)
}
