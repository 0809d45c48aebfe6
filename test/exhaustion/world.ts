import { execFile } from 'node:child_process'
import { chmod, mkdir, mkdtemp, rm, statfs, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { startNats } from '../../dev/nats.ts'
import { startPostgres } from '../../dev/postgres.ts'
import { newGuardedEdge, startTcpUpstream } from '../agent/live_harness.ts'
import type { Scope } from '../harness/control_plane.ts'
import { startInstallation } from '../harness/edge.ts'
import { createMigratedDatabase } from '../harness/environment.ts'
import { startAlerts } from './alerts.ts'

export const run = promisify(execFile)
export type Disk = {
  folder: string
  fill: () => Promise<void>
  free: () => Promise<void>
}
export type World = Awaited<ReturnType<typeof startWorld>>

/** A file system of its own, which can be filled while programs use it. */
async function newDisk(scope: Scope, folder: string, megabytes: number): Promise<Disk> {
  await mkdir(folder)
  await run('mount', ['-t', 'tmpfs', '-o', `size=${megabytes}m,mode=1777`, 'none', folder])
  scope.after(async () => void (await run('umount', ['-l', folder])))
  const ballast = join(folder, 'ballast')
  return {
    folder,
    async fill() {
      const { bavail, bsize } = await statfs(folder)
      await writeFile(ballast, Buffer.alloc(bavail * bsize)).catch(() => {})
      // What is left after the last whole megabyte.
      await run('sh', ['-c', 'cat /dev/zero >>"$0" 2>/dev/null || true', ballast])
    },
    free: () => rm(ballast, { force: true }),
  }
}

/** Programs make their folders where TMPDIR says. */
async function on<Result>(disk: Disk, start: () => Promise<Result>): Promise<Result> {
  const before = process.env.TMPDIR
  process.env.TMPDIR = disk.folder
  try {
    return await start()
  } finally {
    process.env.TMPDIR = before
  }
}

/** HAProxy hangs with libfaketime: only the agent's clock can be moved. */
async function haproxyInRealTime(folder: string): Promise<string> {
  const bin = join(folder, 'bin')
  await mkdir(bin)
  const { stdout } = await run('which', ['haproxy'])
  await writeFile(join(bin, 'haproxy'), `#!/bin/sh\nunset LD_PRELOAD\nexec ${stdout.trim()} "$@"\n`, { mode: 0o755 })
  return bin
}

/** An installation in which each part has a disk of its own, and a guarded TCP edge. */
export async function startWorld(scope: Scope) {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-exhaustion-'))
  scope.after(() => rm(folder, { recursive: true, force: true }))
  // PostgreSQL runs as another user.
  await chmod(folder, 0o755)
  const disks = {
    node: await newDisk(scope, join(folder, 'node'), 600),
    log: await newDisk(scope, join(folder, 'log'), 600),
    nats: await newDisk(scope, join(folder, 'nats'), 600),
    postgres: await newDisk(scope, join(folder, 'postgres'), 400),
  }
  const postgres = await on(disks.postgres, () =>
    startPostgres({ flags: ['-c', 'max_wal_size=64MB', '-c', 'wal_recycle=off', '-c', 'wal_init_zero=off'] }),
  )
  scope.after(() => postgres.stop())
  const databaseUrl = await createMigratedDatabase(postgres, 'drill')
  const nats = await on(disks.nats, () => startNats())
  const settings = { GATEHOUSE_DATABASE_TIMEOUT_MS: '5000' }
  const installation = await startInstallation(scope, settings, databaseUrl, Promise.resolve(nats))
  const home = join(disks.node.folder, 'home')
  await mkdir(home)
  const edgeSettings = {
    GATEHOUSE_EDGE_RUNTIME_FOLDER: join(folder, 'run'),
    GATEHOUSE_EDGE_ACCESS_LOG: join(disks.log.folder, 'access.log'),
    PATH: `${await haproxyInRealTime(folder)}:${process.env.PATH}`,
  }
  const edge = await installation.startEdge({ folder: home, env: edgeSettings })
  const { port: upstreamPort } = await startTcpUpstream(scope)
  const guarded = await newGuardedEdge(installation.admin, edge.tcpPorts.first, upstreamPort, 'allow 127.0.0.2')
  const world = { ...installation, disks, postgres, nats, databaseUrl, settings, edge, edgeSettings, guarded, scope }
  const alerts = await startAlerts(scope, () => ({
    gatehouse: world.processes.at(-1)?.origin ?? '',
    'gatehouse-edge': world.edge.statusUrl,
  }))
  return Object.assign(world, { alerts })
}
