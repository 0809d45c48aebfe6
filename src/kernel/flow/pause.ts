import { setTimeout } from 'node:timers/promises'

/** Ends after the time or when the signal is aborted, whichever comes first. */
export const pause = (ms: number, signal: AbortSignal): Promise<void> =>
  setTimeout(ms, undefined, { signal }).catch((error: unknown) => {
    if (!signal.aborted) throw error
  })
