import { pause } from './flow/pause.ts'

/** Waits for the work, but no longer than this. A timer left behind would keep a process alive that has nothing else to do. */
export async function waitAtMost(ms: number, work: Promise<unknown>): Promise<void> {
  const done = new AbortController()
  try {
    await Promise.race([work, pause(ms, done.signal)])
  } finally {
    done.abort()
  }
}
