import { type Stop, type Timing, wait } from '../../../kernel/timing.ts'
import type { Files } from '../../disk/files.ts'
import type { Observation } from '../../reports/health.ts'
import type { Certificates } from '../certificates.ts'
import type { ComparisonOptions } from '../comparison/comparison.ts'
import type { createMapFiles } from '../maps/map_files.ts'
import type { HaproxyProcess } from './process.ts'
import type { Turns } from './turns.ts'

export type Drain = {
  /** HAProxy continues to accept connections for this long, so that load balancers and clients can react. */
  readonly delayMs: number
  /** Time for open requests and connections to finish, after the delay. */
  readonly deadlineMs: number
  /** Skips the rest of both waits. */
  readonly hurry: AbortSignal
}

export type ProxyOptions = ComparisonOptions & {
  readonly timing?: Timing
  readonly files?: Files
  /** HAProxy was lost and is back, or could not be restarted yet. */
  readonly onTrouble?: (problem: Error) => void
  /** HAProxy exited unexpectedly. */
  readonly onLost?: () => void
  /** HAProxy is down, and another attempt to start it has failed. */
  readonly onDown?: () => void
  /** Interval of file writes, longer if writing is slow: only a reload that the agent did not start reads them. */
  readonly flushMs?: number
  readonly certificatesMs?: number
  /** Receives check results of servers. Changes are also read when HAProxy logs them. */
  readonly onHealth?: (observation: Observation) => void
}

type Parts = {
  timing: Timing
  haproxy: HaproxyProcess
  files: Pick<ReturnType<typeof createMapFiles>, 'flush' | 'flushIfDue'>
  certificates: Pick<Certificates, 'prepare' | 'load' | 'stop'>
  turns: Turns
  /** Called when HAProxy does not start. True if another configuration is now in place to try. */
  fallBack: () => boolean
  started: () => Promise<void>
  readHealth: () => Promise<void>
  trouble: (error: unknown) => void
}

/** Complements the log: a line may be lost, and a new server passes its first check without one. */
const readHealthMs = 10_000

/** Controls HAProxy from start to end: restarts it when it is lost, and keeps its files and certificates current. */
export function createLifetime(
  { timing, haproxy, files, certificates, turns, fallBack, started, readHealth, trouble }: Parts,
  options: ProxyOptions,
) {
  const timers: Stop[] = []
  let isOver = false

  async function bringBack(): Promise<void> {
    let isBack = false
    for (let waitMs = 100; !isOver && !isBack; waitMs = Math.min(waitMs * 2, 5_000)) {
      try {
        if (!haproxy.isAlive()) await startFromFiles()
        await started()
        isBack = true
      } catch (error) {
        trouble(error)
        if (!haproxy.isAlive()) options.onDown?.()
        if (haproxy.isAlive() || !fallBack()) await wait(timing, waitMs)
      }
    }
  }

  async function startFromFiles(): Promise<void> {
    await files.flush()
    await certificates.prepare()
    await haproxy.start()
  }

  function regularly(work: () => Promise<void>, everyMs: number): void {
    timers.push(timing.every(everyMs, () => void work().catch(trouble)))
  }

  function close(): void {
    isOver = true
    certificates.stop()
    for (const stop of timers) stop()
  }

  return {
    begin(): void {
      haproxy.onLost(() => {
        options.onLost?.()
        trouble(new Error('HAProxy exited; restarting it'))
        void turns.next(bringBack)
      })
      // Outside of turns: changes must not wait for a million lines.
      regularly(files.flushIfDue, options.flushMs ?? 5_000)
      regularly(() => turns.next(certificates.load), options.certificatesMs ?? 2_000)
      regularly(readHealth, readHealthMs)
    },

    isOver: (): boolean => isOver,

    async end(work: () => void | Promise<void>): Promise<void> {
      close()
      await turns.next(async () => {
        // A full disk must not prevent HAProxy from ending.
        await files.flush().catch(trouble)
        await work()
      })
    },

    async drain({ delayMs, deadlineMs, hurry }: Drain): Promise<void> {
      if (delayMs > 0) {
        await turns.next(haproxy.closeKeptConnections).catch(trouble)
        await wait(timing, delayMs, hurry)
      }
      close()
      if (deadlineMs === 0 || hurry.aborted) return
      await turns.ended()
      // Outside of turns, so that the wait does not block the closing of an edge's connections.
      const late = new AbortController()
      const stop = timing.after(deadlineMs, () => late.abort())
      await haproxy.finish(AbortSignal.any([hurry, late.signal])).catch(trouble)
      stop()
    },
  }
}
