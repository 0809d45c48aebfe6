import { type Stop, type Timing, wait } from '../../../kernel/timing.ts'
import type { Loading } from '../loading.ts'
import type { Claims } from '../maps/claims.ts'
import type { MapRuntime } from '../process/runtime.ts'
import type { Turns } from '../process/turns.ts'
import type { Difference } from './difference.ts'
import { createMapComparison } from './map_comparison.ts'

export type ComparisonOptions = {
  /** Receives what differs before it is repaired. */
  readonly onDifferences?: (found: readonly Difference[]) => void
  /** Called after a complete comparison without differences. */
  readonly onAgreement?: () => void
  readonly comparisonMs?: number
}

type Parts = {
  timing: Timing
  runtime: MapRuntime
  claims: Claims
  turns: Turns
  loading: Pick<Loading, 'reload' | 'isInDoubt' | 'loads'>
  isOver: () => boolean
  differencesOfOthers: () => Promise<Difference[]>
  trouble: (error: unknown) => void
}

/** Pause between two slices. With 500 entries per slice, this takes about 1 % of a core. */
const pauseMs = 50
export const defaultComparisonMs = 20_000
/** Minimum time between two reloads, if the first one did not repair the difference. */
const reloadAgainMs = 10 * 60 * 1_000

/**
 * Continuously compares everything in HAProxy with the agent's state, slowly: another program may have written to its
 * socket, someone may have reloaded it with old files, or the agent may have a defect.
 */
export function createComparison(parts: Parts, options: ComparisonOptions) {
  const { timing, runtime, claims, turns, loading, isOver, differencesOfOthers, trouble } = parts
  const ending = new AbortController()
  let found = 0
  let reloadAt = Number.NEGATIVE_INFINITY

  function onDifferences(differences: readonly Difference[]): void {
    found += differences.length
    options.onDifferences?.(differences)
  }

  const isPaused = () => ending.signal.aborted || isOver() || loading.isInDoubt()
  const inTurn = (work: () => Promise<void>): Promise<void> =>
    turns.next(async () => {
      if (!isPaused()) await work()
    })

  async function reload(cause: unknown): Promise<void> {
    if (timing.elapsed() < reloadAt) throw cause
    reloadAt = timing.elapsed() + reloadAgainMs
    await loading.reload('HAProxy was changed by another program', cause)
  }
  const compareMaps = createMapComparison({ runtime, claims, inTurn, onDifferences, reload })

  /** Compares outside a turn first, because it may take a while and rarely finds anything. */
  async function compareOthers(): Promise<void> {
    if ((await differencesOfOthers()).length === 0) return
    await inTurn(async () => {
      const differences = await differencesOfOthers()
      if (differences.length === 0) return
      onDifferences(differences)
      await reload(new Error(`${differences[0]?.what} ${differences[0]?.name} is not as it was`))
    })
  }

  async function compare(): Promise<void> {
    const [foundBefore, loadsBefore] = [found, loading.loads()]
    // A replaced worker lives on until its last reader is done, so stop reading it.
    const isSame = () => !isPaused() && loading.loads() === loadsBefore
    const pace = async () => {
      await wait(timing, pauseMs, ending.signal)
      return isSame()
    }
    if (isPaused()) return
    await compareMaps(pace)
    if (isSame()) await compareOthers()
    if (!isSame() || found > foundBefore) return
    reloadAt = Number.NEGATIVE_INFINITY
    options.onAgreement?.()
  }

  let stop: Stop = () => {}
  function next(): void {
    stop = timing.after(options.comparisonMs ?? defaultComparisonMs, () => {
      void compare()
        .catch((error) => ending.signal.aborted || trouble(error))
        .finally(() => ending.signal.aborted || next())
    })
  }

  return {
    begin: next,
    end(): void {
      ending.abort()
      stop()
    },
  }
}
