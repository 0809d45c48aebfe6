import { once } from 'node:events'
import { mkdir, readFile, rmdir, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:net'
import { stop } from '../harness/control_plane.ts'
import { poll } from '../harness/poll.ts'
import { run, type World } from './world.ts'

/** One of the programs of an installation, started and ended as a service manager would. */
export type Part = {
  name: string
  pid: () => number | undefined
  port: () => number
  kill: () => Promise<void>
  /** Rejects when the program ends instead of serving. */
  start: (env?: Record<string, string>) => Promise<void>
}

const isAlive = (pid: number | undefined): boolean => {
  try {
    return pid !== undefined && process.kill(pid, 0)
  } catch {
    return false
  }
}

/** For a program that is started in this process and takes its environment from here. */
async function withEnvironment<Result>(env: Record<string, string>, work: () => Promise<Result>): Promise<Result> {
  const before = { ...process.env }
  Object.assign(process.env, env)
  try {
    return await work()
  } finally {
    for (const name of Object.keys(env)) delete process.env[name]
    Object.assign(process.env, before)
  }
}

export function partsOf(world: World): Record<'node' | 'nats' | 'postgres' | 'plane', Part> {
  const { nats, postgres, processes } = world
  const serving = () => processes.at(-1) as (typeof processes)[number]
  return {
    node: {
      name: 'node',
      pid: () => world.edge.child.pid,
      port: () => world.guarded.port,
      // HAProxy as well, which would keep the port.
      kill: () => stop(world.edge.child, 'SIGTERM'),
      async start(env = {}) {
        world.edge = await world.startEdge({ like: world.edge, cutOff: true, env: { ...world.edgeSettings, ...env } })
      },
    },
    nats: {
      name: 'NATS',
      pid: () => nats.pid,
      port: () => nats.port,
      kill: () => nats.stop('SIGKILL'),
      start: () => nats.restart(),
    },
    postgres: {
      name: 'PostgreSQL',
      pid: () => postgres.pid,
      port: () => Number(new URL(postgres.url).port),
      kill: () => postgres.kill(),
      start: (env = {}) => withEnvironment(env, () => postgres.restart()),
    },
    plane: {
      name: 'control plane',
      pid: () => serving().child.pid,
      port: () => serving().port,
      kill: () => stop(serving().child, 'SIGKILL'),
      async start(env = {}) {
        await world.startProcess({ GATEHOUSE_LISTEN: `127.0.0.1:${serving().port}`, ...env })
      },
    },
  }
}

/** Tries as a service manager does, until the program serves. */
export async function startAgain(part: Part): Promise<void> {
  await poll(
    () =>
      part.start().then(
        () => true,
        () => false,
      ),
    Boolean,
    { withinSeconds: 60, everyMs: 1_000 },
  )
}

/** The kernel ends the program when it needs more. */
export function memoryLimit(part: Part) {
  const folder = `/sys/fs/cgroup/memory/gatehouse-drill-${process.pid}-${part.name.replace(' ', '-')}`
  return {
    async begin(): Promise<void> {
      await mkdir(folder, { recursive: true })
      await writeFile(`${folder}/memory.limit_in_bytes`, '4K')
      await writeFile(`${folder}/cgroup.procs`, `${part.pid()}`)
    },
    async end(): Promise<void> {
      const wasKilled = !isAlive(part.pid())
      const failures = (await readFile(`${folder}/memory.failcnt`, 'utf8')).trim()
      if (failures === '0') throw new Error(`${part.name} never needed more memory`)
      await writeFile(`${folder}/memory.limit_in_bytes`, '-1')
      for (const pid of (await readFile(`${folder}/cgroup.procs`, 'utf8')).split('\n').filter(Boolean))
        await writeFile('/sys/fs/cgroup/memory/cgroup.procs', pid).catch(() => {})
      await rmdir(folder)
      if (wasKilled) await startAgain(part)
    },
  }
}

/** Another program listens where the part should. It accepts connections, says nothing, and closes them after a while. */
export function takenPort(part: Part) {
  let other: Server | undefined
  return {
    async begin(): Promise<void> {
      const port = part.port()
      await part.kill()
      other = createServer((socket) => socket.on('error', () => {}).setTimeout(3_000, () => socket.destroy()))
      other.listen(port, '127.0.0.1')
      await once(other, 'listening')
      // It ends at once. Where the harness takes an answer on the port for that of the part, this does not reject.
      await part.start().catch(() => {})
    },
    async end(): Promise<void> {
      other?.close()
      await startAgain(part)
    },
  }
}

const hourAhead = {
  LD_PRELOAD: '/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1',
  FAKETIME: '+1h',
  // Only what the time of day is: no machine loses an hour of its uptime.
  FAKETIME_DONT_FAKE_MONOTONIC: '1',
}

export const clockAhead = (part: Part) => ({
  async begin(): Promise<void> {
    await part.kill()
    await part.start(hourAhead)
  },
  async end(): Promise<void> {
    await part.kill()
    await part.start()
  },
})

/** What is open stays writable. All else is not. */
export const readOnly = (folder: string) => ({
  async begin(): Promise<void> {
    await run('mount', ['--bind', folder, folder])
    await run('mount', ['-o', 'remount,bind,ro', folder])
  },
  end: async (): Promise<void> => void (await run('umount', ['-l', folder])),
})
