import type { Batch } from '../../distribution/channels.ts'
import { type Timing, wait } from '../../kernel/timing.ts'
import type { NatsSink } from './nats_sink.ts'

/** A node whose NATS server died may have missed messages that the bucket does not have yet. */
const repeatEveryMs = 1_000
const maxRepeats = 3
/** An election takes seconds. After a minute the cause is another, and the publisher restarts from its cursor. */
const giveUpAfterMs = 60_000
const retryAfterMs = 100

/** Writes batches into the bucket one by one, and advances the cursor after each. */
export function createBucketWriter(
  natsSink: Pick<NatsSink, 'keep' | 'announce'>,
  timing: Timing,
  moveCursor: (settled: number, revision: number) => Promise<void>,
) {
  const queue: { batch: Batch; keys: string[]; settled: number; repeats: number }[] = []
  let records = 0
  let working: Promise<void> | undefined
  let fault: unknown
  let stopped = false
  async function work(): Promise<void> {
    for (let next = queue[0]; next && !stopped; next = queue[0]) {
      const revision = await keepTrying(next)
      await moveCursor(next.settled, revision)
      queue.shift()
      records -= next.keys.length
    }
    working = undefined
  }
  async function keepTrying({ batch, keys }: (typeof queue)[number]): Promise<number> {
    const giveUpAt = timing.elapsed() + giveUpAfterMs
    const kept = new Set<string>()
    for (;;) {
      try {
        return await natsSink.keep(batch, keys, kept)
      } catch (error) {
        if (timing.elapsed() > giveUpAt || stopped) throw error
        await wait(timing, retryAfterMs)
      }
    }
  }
  let waitingSinceLast = new Set<Batch>()
  const stopRepeating = timing.every(repeatEveryMs, () => {
    for (const item of queue)
      if (waitingSinceLast.has(item.batch) && item.repeats++ < maxRepeats) natsSink.announce(item.batch)
    waitingSinceLast = new Set(queue.map(({ batch }) => batch))
  })
  return {
    add(batch: Batch, keys: string[], settled: number) {
      queue.push({ batch, keys, settled, repeats: 0 })
      records += keys.length
      working ??= work().catch((error) => {
        fault = error
      })
    },
    recordsWaiting: () => records,
    isIdle: () => queue.length === 0,
    fail(error: unknown) {
      fault ??= error
    },
    /** The next publisher starts at the cursor and writes the rest. */
    stop() {
      stopped = true
      stopRepeating()
    },
    check() {
      if (fault) throw fault
    },
    finish: async () => working,
  }
}
