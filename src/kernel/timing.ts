import type { Clock } from './clock.ts'

export type Stop = () => void

/**
 * Time and randomness, passed to everything between the outbox and the proxy. A simulation controls both, so its seed
 * determines the order of events.
 */
export type Timing = {
  now: Clock
  /** Milliseconds since an arbitrary moment. Never jumps, unlike `now`. */
  elapsed: () => number
  /** From 0 up to 1. */
  random: () => number
  after: (ms: number, work: () => void) => Stop
  /** Does not keep the process alive. */
  every: (ms: number, work: () => void) => Stop
}

/** Resolves after the time or when the signal aborts, whichever comes first. */
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

/** 50 % to 150 % of the time, so that nodes that started together spread out. */
export const spread = ({ random }: Pick<Timing, 'random'>, ms: number): number => Math.round(ms * (0.5 + random()))
