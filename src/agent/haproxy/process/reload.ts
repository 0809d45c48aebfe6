import { type Timing, wait } from '../../../kernel/timing.ts'
import type { HaproxyProcess } from './process.ts'

/** Longer than a busy client leaves a connection idle between two requests. */
const closingMs = 1_000

type Reload = {
  timing: Timing
  prepare: () => Promise<void>
  /** The current state is wrong and must be replaced as soon as possible. */
  isUrgent: boolean
  trouble: (error: unknown) => void
}

/**
 * An old worker closes idle connections when its successor starts, and a client that is just sending a request cannot
 * know whether it was read. Responses therefore close their connections beforehand, while the files are checked.
 */
export async function reloadGently(
  haproxy: Pick<HaproxyProcess, 'closeKeptConnections' | 'keepConnections' | 'reload'>,
  { timing, prepare, isUrgent, trouble }: Reload,
): Promise<void> {
  const began = timing.elapsed()
  await haproxy.closeKeptConnections().catch(trouble)
  try {
    await prepare()
    const left = isUrgent ? 0 : closingMs - (timing.elapsed() - began)
    if (left > 0) await wait(timing, left)
    await haproxy.reload()
  } catch (error) {
    await haproxy.keepConnections().catch(trouble)
    throw error
  }
}
