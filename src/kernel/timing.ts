import type { Clock } from './clock.ts'

/** Ends what was begun. */
export type Stop = () => void

/**
 * Time and chance. Passed in to everything between the outbox and the proxy, so that a simulation decides both: in which
 * order things happen is then a matter of its seed.
 */
export type Timing = {
  now: Clock
  /** Milliseconds since some moment. Unlike `now`, it never jumps. */
  elapsed: () => number
  /** From 0 up to 1. */
  random: () => number
  after: (ms: number, work: () => void) => Stop
  /** Keeps no process alive. */
  every: (ms: number, work: () => void) => Stop
}

/** Ends after the time or when the signal is aborted, whichever comes first. */
export function wait({ after }: Pick<Timing, 'after'>, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve()
    const stop = after(ms, end)
    function end(): void {
      stop()
      signal?.removeEventListener('abort', end)
      resolve()
    }
    signal?.addEventListener('abort', end)
  })
}

/** Between half and one and a half times as long, so that many nodes that began together do not stay together. */
export const spread = ({ random }: Pick<Timing, 'random'>, ms: number): number => Math.round(ms * (0.5 + random()))
