import { setTimeout } from 'node:timers/promises'

/** Resolves after the time or when the signal aborts, whichever comes first. */
export const pause = (ms: number, signal: AbortSignal): Promise<void> =>
  setTimeout(ms, undefined, { signal }).catch((error: unknown) => {
    if (!signal.aborted) throw error
  })
