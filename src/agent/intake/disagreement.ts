import { progressKey } from '../../distribution/channels.ts'
import type { Timing } from '../../kernel/timing.ts'
import type { Refusals } from '../refusals.ts'
import type { BucketEntry, createIntake, Released } from './intake.ts'

/** Doubles each time that a read did not help: a large bucket is expensive for every node to read. */
const [shortestWaitMs, longestWaitMs] = [10_000, 600_000]
const refusal = {
  key: progressKey,
  generation: null,
  reason:
    'the records that arrived are not those that the control plane has signed for; one is missing or was replaced',
}

type Parts = {
  intake: ReturnType<typeof createIntake>
  step: { differs: () => boolean; isReadAgain: () => void; position: () => { applied: number } }
  refusals: Refusals
  timing: Pick<Timing, 'elapsed'>
  readAgain: () => void
  /** Drops what was released and waits for a step. */
  drop: () => void
}

/**
 * Handles arrivals that differ from the state that the control plane has signed: reports the difference, so that the
 * publisher compares the bucket, and reads everything again.
 */
export function createDisagreement({ intake, step, refusals, timing, readAgain, drop }: Parts) {
  let readAgainAt = 0
  let waitMs = shortestWaitMs

  function resolve(): void {
    const { isReadingAll, differs } = intake.state()
    if (isReadingAll ? !differs : !step.differs()) return
    if (timing.elapsed() < readAgainAt) return
    readAgainAt = timing.elapsed() + waitMs
    waitMs = Math.min(waitMs * 2, longestWaitMs)
    refusals.refuse(refusal)
    readAgain()
  }

  return {
    resolve,
    opened(made: string, resumed: boolean): void {
      // Records held back or released since then count as not received: applying them would advance past the missing
      // ones.
      if (step.differs()) drop()
      intake.opened(made, resumed, step.differs() ? step.position().applied : undefined)
      if (!resumed) step.isReadAgain()
    },
    entry(entry: BucketEntry): Released[] {
      const released = intake.entry(entry)
      // Applies after a full read too: if NATS went back to an earlier state meanwhile, some entries arrived too early.
      if (intake.state().differs) resolve()
      else if (released.length > 0) waitMs = shortestWaitMs
      return released
    },
  }
}
