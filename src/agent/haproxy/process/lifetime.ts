import { type Stop, type Timing, wait } from '../../../kernel/timing.ts'
import type { Files } from '../../disk/files.ts'
import type { Observation } from '../../reports/health.ts'
import type { Certificates } from '../certificates.ts'
import type { ComparisonOptions } from '../comparison/comparison.ts'
import type { createMapFiles } from '../maps/map_files.ts'
import type { HaproxyProcess } from './process.ts'
import type { Turns } from './turns.ts'

export type Drain = {
  /** Goes on accepting for so long: load balancers and clients need it to notice. */
  readonly delayMs: number
  /** After that, open requests and connections have this long to finish. */
  readonly deadlineMs: number
  /** Skips the rest of both. */
  readonly hurry: AbortSignal
}

export type ProxyOptions = ComparisonOptions & {
  readonly timing?: Timing
  readonly files?: Files
  /** HAProxy was lost and is back, or could not be brought back yet. */
  readonly onTrouble?: (problem: Error) => void
  /** HAProxy has ended, and we did not end it. */
  readonly onLost?: () => void
  /** HAProxy is down, and has just failed to start again. */
  readonly onDown?: () => void
  /** How often the files are written, unless that takes long: only a reload that is none of ours would read them. */
  readonly flushMs?: number
  readonly certificatesMs?: number
  /** What checks say of servers. Changes are also read when HAProxy logs them. */
  readonly onHealth?: (observation: Observation) => void
}

type Parts = {
  timing: Timing
  haproxy: HaproxyProcess
  files: Pick<ReturnType<typeof createMapFiles>, 'flush' | 'flushIfDue'>
  certificates: Pick<Certificates, 'prepare' | 'load' | 'stop'>
  turns: Turns
  /** When HAProxy does not start: whether it may with another configuration, which is in place now. */
  fallBack: () => boolean
  /** After HAProxy was started. */
  started: () => Promise<void>
  readHealth: () => Promise<void>
  trouble: (error: unknown) => void
}

/** A log line may be lost, and a new server passes its first check without one. */
const readHealthMs = 10_000

/** From the start of HAProxy to its end: brings it back when it is lost, and keeps files and certificates current. */
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
      // Out of turn: changes must not wait for a million lines.
      regularly(files.flushIfDue, options.flushMs ?? 5_000)
      regularly(() => turns.next(certificates.load), options.certificatesMs ?? 2_000)
      regularly(readHealth, readHealthMs)
    },

    isOver: (): boolean => isOver,

    async end(work: () => void | Promise<void>): Promise<void> {
      close()
      await turns.next(async () => {
        // A disk that takes nothing must not keep HAProxy from ending.
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
      // Not queued: connections of an edge may have to be closed while a change is running.
      const late = new AbortController()
      const stop = timing.after(deadlineMs, () => late.abort())
      await haproxy.finish(AbortSignal.any([hurry, late.signal])).catch(trouble)
      stop()
    },
  }
}
