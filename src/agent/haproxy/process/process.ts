import { execFile, spawn } from 'node:child_process'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { promisify } from 'node:util'
import { configFile, type ProxySettings } from '../settings.ts'
import { ask, tell } from './runtime.ts'

const startTimeoutMs = 60_000
const watchIntervalMs = 200
/** Longer than a request can be in flight before its client learns of the drain. */
const lateRequestSeconds = 2

export type HaproxyProcess = {
  /** False if HAProxy was not running. It survives the agent's exit, so traffic continues. */
  attach: () => Promise<boolean>
  /** Throws HAProxy's message if the configuration or a file in it is unusable. */
  check: () => Promise<void>
  start: () => Promise<void>
  /** A new worker takes over the listening sockets; the old one serves its connections until they end. */
  reload: () => Promise<void>
  isAlive: () => boolean
  /** Called once for each process, started or attached, that exits unexpectedly. */
  onLost: (listener: () => void) => void
  /** Responses end their HTTP/1 connections from now on, so that clients open the next one elsewhere. */
  closeKeptConnections: () => Promise<void>
  /** Responses keep connections open again. */
  keepConnections: () => Promise<void>
  /**
   * Closes listening sockets and idle connections, and sends GOAWAY to HTTP/2 clients. Open requests and connections
   * continue, and HAProxy exits with the last of them. Resolves then, or when `stopWaiting` aborts.
   */
  finish: (stopWaiting: AbortSignal) => Promise<void>
  stop: () => Promise<void>
  /** Stops watching HAProxy. */
  detach: () => void
}

/** HAProxy in master-worker mode. The master survives reloads, and exits when its worker crashes. */
export function haproxyProcess(settings: ProxySettings): HaproxyProcess {
  const binary = settings.binary ?? 'haproxy'
  let master: number | undefined
  let watch: NodeJS.Timeout | undefined
  let lost = () => {}

  const unwatch = () => {
    clearInterval(watch)
    master = undefined
  }
  const follow = (pid: number) => {
    unwatch()
    master = pid
    // Polled even for our own child, because an attached process is not a child and emits no exit event.
    watch = setInterval(() => {
      if (exists(pid)) return
      unwatch()
      lost()
    }, watchIntervalMs).unref()
  }

  return {
    async attach() {
      const [pid] = await Promise.all([masterPid(settings), workerPid(settings)])
      if (pid === undefined) return false
      follow(pid)
      return true
    },

    check: () => checkConfig(binary, settings),

    async start() {
      unwatch()
      // A worker whose master was killed may still listen with outdated state.
      const orphan = await workerPid(settings)
      if (orphan !== undefined) await end(orphan, 'SIGKILL')
      follow(await startMaster(binary, settings))
    },

    async reload() {
      const before = await workerPid(settings)
      // The reply is lost with the master's old image; the new worker shows whether the reload worked.
      await ask(settings.masterSocket, 'reload').catch(() => {})
      await serves(settings, before)
    },

    isAlive: () => master !== undefined && exists(master),
    onLost(listener) {
      lost = listener
    },

    closeKeptConnections: () => setDraining(settings, true),
    keepConnections: () => setDraining(settings, false),

    async finish(stopWaiting) {
      const pid = master ?? (await masterPid(settings))
      unwatch()
      if (pid === undefined) return
      // The runtime socket closes now, so changes no longer arrive. Clients that ignore the drain are refused shortly.
      const refuseAfter = Math.floor(Date.now() / 1_000) + lateRequestSeconds
      await tell(settings.runtimeSocket, ['experimental-mode on', `set var proc.refuse_after int(${refuseAfter})`])
      if (exists(pid)) process.kill(pid, 'SIGUSR1')
      while (exists(pid) && !stopWaiting.aborted) await setTimeout(50)
      if (exists(pid)) master = pid
    },

    async stop() {
      const pid = master ?? (await masterPid(settings))
      unwatch()
      if (pid !== undefined) await end(pid, 'SIGTERM')
    },
    detach: unwatch,
  }
}

function setDraining({ runtimeSocket }: ProxySettings, isDraining: boolean): Promise<void> {
  return tell(runtimeSocket, ['experimental-mode on', `set var proc.draining bool(${isDraining})`])
}

async function checkConfig(binary: string, settings: ProxySettings): Promise<void> {
  try {
    await promisify(execFile)(binary, ['-c', '-f', configFile(settings)], { maxBuffer: 1 << 24 })
  } catch (error) {
    const { stderr = '' } = error as { stderr?: string }
    throw new Error(`HAProxy refuses its configuration: ${stderr.slice(0, 2_000)}`, { cause: error })
  }
}

/** Resolves to the process id once the worker serves. */
async function startMaster(binary: string, settings: ProxySettings): Promise<number> {
  const log = await open(join(settings.folder, 'haproxy.log'), 'a', 0o600)
  // -q, because HAProxy would otherwise write every refusal to standard error too.
  const args = ['-W', '-q', '-S', `${settings.masterSocket},mode,600`, '-f', configFile(settings)]
  // A separate session without a pipe to the agent, so that HAProxy outlives it.
  const child = spawn(binary, args, { detached: true, stdio: ['ignore', log.fd, log.fd] })
  const ended = new Promise<never>((_, reject) => {
    child.once('error', reject)
    child.once('exit', (code, signal) =>
      reject(
        new Error(
          `HAProxy exited while starting (${code ?? signal}); run 'haproxy -W -f ${configFile(settings)}' to see why`,
        ),
      ),
    )
  })
  ended.catch(() => {})
  child.unref()
  await log.close()
  try {
    await Promise.race([ended, serves(settings, undefined)])
  } catch (error) {
    throw new Error(`HAProxy did not start: ${await whyNot(binary, settings)}`, { cause: error })
  }
  if (child.pid === undefined) throw new Error('HAProxy has no process id')
  return child.pid
}

/**
 * With -q, HAProxy does not explain a failed start. Runs it again without -q for the message, and ends it if it starts
 * this time.
 */
async function whyNot(binary: string, settings: ProxySettings): Promise<string> {
  const options = { timeout: 5_000, killSignal: 'SIGKILL', maxBuffer: 1 << 24 } as const
  const { stderr = '' } = await promisify(execFile)(binary, ['-db', '-f', configFile(settings)], options).catch(
    (error) => error,
  )
  return String(stderr)
    .split('\n')
    .filter((line) => line.includes('[ALERT]'))
    .join('\n')
    .slice(0, 2_000)
}

async function serves(settings: ProxySettings, before: number | undefined): Promise<void> {
  const deadline = Date.now() + startTimeoutMs
  for (;;) {
    const pid = await workerPid(settings)
    // The master does not answer for a moment after it has started a worker.
    if (pid !== undefined && pid !== before && (await masterPid(settings)) !== undefined) return
    if (Date.now() > deadline) throw new Error('HAProxy has no new worker that answers on its runtime socket')
    await setTimeout(20)
  }
}

async function workerPid({ runtimeSocket }: ProxySettings): Promise<number | undefined> {
  const info = await ask(runtimeSocket, 'show info').catch(() => '')
  const pid = /^Pid: (\d+)$/m.exec(info)?.[1]
  // A worker that is stopping still answers on existing connections.
  return pid === undefined || /^Stopping: 1$/m.test(info) ? undefined : Number(pid)
}

async function masterPid({ masterSocket }: ProxySettings): Promise<number | undefined> {
  const processes = await ask(masterSocket, 'show proc').catch(() => '')
  const pid = /^(\d+)\s+master\s/m.exec(processes)?.[1]
  return pid === undefined ? undefined : Number(pid)
}

function exists(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

async function end(pid: number, signal: NodeJS.Signals): Promise<void> {
  if (exists(pid)) process.kill(pid, signal)
  const deadline = Date.now() + 5_000
  while (exists(pid) && Date.now() < deadline) await setTimeout(20)
  if (exists(pid)) process.kill(pid, 'SIGKILL')
}
