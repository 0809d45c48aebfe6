import { pause } from './flow/pause.ts'

/** Waits for the work up to a limit. Clears its timer, which would otherwise keep the process alive. */
export async function waitAtMost(ms: number, work: Promise<unknown>): Promise<void> {
  const done = new AbortController()
  try {
    await Promise.race([work, pause(ms, done.signal)])
  } finally {
    done.abort()
  }
}
