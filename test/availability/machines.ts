// Machines of one network, each with an address of its own, in network namespaces. Only within a namespace of the drill's
// own (enter.ts): they and everything that runs in them end with the drill.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { appendFileSync, createWriteStream, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pause } from './wait.ts'

export type Machine = ReturnType<typeof makeMachine>

const run = (...[program, ...args]: string[]) => execFileSync(program as string, args, { encoding: 'utf8' })

/** The drill itself is at .1. */
export function makeNetwork(): void {
  run('ip', 'link', 'set', 'lo', 'up')
  run('ip', 'link', 'add', 'br0', 'type', 'bridge')
  run('ip', 'addr', 'add', '10.97.0.1/24', 'dev', 'br0')
  run('ip', 'link', 'set', 'br0', 'up')
}

export function makeMachine(name: string, address: string) {
  run('ip', 'netns', 'add', name)
  run('ip', 'link', 'add', name, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', name)
  run('ip', 'link', 'set', name, 'master', 'br0', 'up')
  const inside = (...command: string[]) => run('ip', 'netns', 'exec', name, ...command)
  inside('ip', 'link', 'set', 'lo', 'up')
  inside('ip', 'addr', 'add', `${address}/24`, 'dev', 'eth0')
  inside('ip', 'link', 'set', 'eth0', 'up')
  // Services listen on loopback, too, and the shared address must be bindable on the machine that does not have it.
  inside('sysctl', '-qw', 'net.ipv4.ip_nonlocal_bind=1')
  const pids = () => inside('ip', 'netns', 'pids', name).trim().split('\n').filter(Boolean).map(Number)
  const rule = (hook: string, device: string, field: string, set: string) =>
    `chain ${hook} { type filter hook ${hook} priority 0; ${device} lo accept; ${field} ${set} drop; }`
  return {
    name,
    address,
    inside,
    /** Everything that runs on it, or the programs of this name. */
    pids: (program?: string) => pids().filter((pid) => !program || nameOf(pid) === program),
    signal(signal: NodeJS.Signals, program?: string): number {
      const all = pids().filter((pid) => !program || nameOf(pid) === program)
      for (const pid of all) signalOne(pid, signal)
      return all.length
    },
    /** Packets from and to these machines are dropped, or from and to everyone. */
    cut(others?: readonly { address: string }[]): void {
      const set = others ? `{ ${others.map((other) => other.address).join(', ')} }` : '0.0.0.0/0'
      const chains = [rule('input', 'iif', 'ip saddr', set), rule('output', 'oif', 'ip daddr', set)]
      const input = `table inet cut {\n${chains.join('\n')}\n}\n`
      execFileSync('ip', ['netns', 'exec', name, 'nft', '-f', '-'], { input })
    },
    heal(): void {
      try {
        execFileSync('ip', ['netns', 'exec', name, 'nft', 'delete', 'table', 'inet', 'cut'], { stdio: 'ignore' })
      } catch {
        // Nothing was cut.
      }
    },
  }
}

function nameOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/comm`, 'utf8').trim()
  } catch {
    return ''
  }
}

function signalOne(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

export type Service = {
  name: string
  machine: Machine
  start: () => void
  /** It is not started again until `start`. */
  stop: (signal?: NodeJS.Signals) => Promise<void>
  /** kill -9; like systemd's Restart=always, it is started again. */
  kill: () => void
  isRunning: () => boolean
  /** From the next start on, with this file in place of the program and this server of PostgreSQL; without, as before. */
  use: (file?: string, database?: string) => void
}

/** A program on a machine that is started again when it ends, as its unit would. */
export function makeService(
  machine: Machine,
  name: string,
  command: readonly string[],
  { folder, env = {}, user = 'root' }: { folder: string; env?: Record<string, string | undefined>; user?: string },
): Service {
  const log = join(folder, `${machine.name}-${name}.log`)
  let child: ChildProcess | undefined
  let wanted = false
  let given = command
  let environment = env
  const start = () => {
    wanted = true
    if (child) return
    const as = user === 'root' ? [] : ['setpriv', `--reuid=${user}`, `--regid=${user}`, '--clear-groups']
    const started = spawn('nsenter', [`--net=/run/netns/${machine.name}`, ...as, ...given], {
      env: { PATH: process.env.PATH, HOME: '/tmp', LC_ALL: 'C.UTF-8', ...environment },
      stdio: ['ignore', 'pipe', 'pipe'],
      cwd: '/',
    })
    child = started
    const file = createWriteStream(log, { flags: 'a' })
    for (const stream of [started.stdout, started.stderr]) stream?.pipe(file, { end: false })
    started.once('exit', (code, signal) => {
      appendFileSync(log, `--- ended: ${code ?? signal}\n`)
      child = undefined
      void pause(1_000).then(() => wanted && start())
    })
  }
  return {
    name,
    machine,
    start,
    async stop(signal = 'SIGTERM') {
      wanted = false
      child?.kill(signal)
      for (let waited = 0; child; waited += 50) {
        if (waited > 60_000) throw new Error(`${name} on ${machine.name} did not end`)
        await pause(50)
      }
    },
    kill: () => void child?.kill('SIGKILL'),
    isRunning: () => child !== undefined,
    use: (instead, database) => {
      const { GATEHOUSE_DATABASE_URL: url } = env
      environment = database && url ? { ...env, GATEHOUSE_DATABASE_URL: url.replace('data-1,data-2', database) } : env
      given = instead === undefined ? command : command.map((word) => (word.endsWith('/main.js') ? instead : word))
    },
  }
}
