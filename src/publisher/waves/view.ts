import { kindOf, type RecordKey } from '../../distribution/records.ts'
import { type Timing, wait } from '../../kernel/timing.ts'
import type { PublisherDatabase } from '../database.ts'
import type { Changed } from '../records/changed.ts'
import type { Compiled } from '../records/compile.ts'

/** A change is assigned to a rollout within milliseconds of its commit, or once the first wave's bucket has a leader. */
const lookAgainMs = 20
const lost = 'a rollout holds it, and NATS had lost what it was before'

type Parts = {
  database: PublisherDatabase
  wave: number
  timing: Timing
  signal: AbortSignal
  /** Runs between compiling and sending: assigns what may have been compiled to rollouts. */
  hold?: (changed: readonly Changed[], elsewhere: ReadonlySet<RecordKey>) => Promise<void>
}

/**
 * The database as a wave should see it: records that an unreleased rollout has changed keep their earlier version. The
 * tables have only the newest state, so a committed change that is not held yet must not be sent; this waits for it.
 */
export function viewOfWave({ database, wave, timing, signal, hold }: Parts): PublisherDatabase {
  return {
    ...database,
    async compile(changed, now, context) {
      for (;;) {
        const compiled = await database.compile(changed, now, context)
        const elsewhere = new Set(compiled.filter(({ isElsewhere }) => isElsewhere).map(({ key }) => key))
        await hold?.(changed, elsewhere)
        const keys = changed.map(({ key }) => key).filter((key) => !elsewhere.has(key))
        // Read after compiling, so that every change which that saw is in the outbox.
        const { held, unsettled } = await database.held(wave, keys)
        if (unsettled.size === 0) return overlaid(compiled, held, (key) => context.onUnavailable?.(key, lost))
        await wait(timing, lookAgainMs, signal)
        signal.throwIfAborted()
      }
    },
    async *living(kind) {
      const held = new Map((await database.heldKeys(wave)).map((one) => [one.key, one]))
      for await (const page of database.living(kind)) {
        yield page.filter(({ key }) => !held.get(key)?.isGone)
        for (const { key } of page) held.delete(key)
      }
      const deleted = [...held.values()].filter(({ key, isGone }) => kindOf(key) === kind && !isGone)
      if (deleted.length > 0) yield deleted.map(({ key, accountId }) => ({ key, accountId }))
    },
  }
}

/**
 * While the version of some record for the wave is unknown, the bucket is not reported as complete: nodes keep records
 * that the bucket lacks, and a new node waits.
 */
export function watchLost(database: Pick<PublisherDatabase, 'held'>, wave: number | undefined) {
  let isSaid = false
  const hasLost = async () => wave !== undefined && (await database.held(wave, [])).hasLost
  return {
    /** Nodes have to learn again that the bucket is complete. */
    isOver: async (): Promise<boolean> => isSaid && !(await hasLost()),
    async orComplete<Complete>(complete: Complete): Promise<Complete | { floor: number }> {
      isSaid = await hasLost()
      return isSaid ? { floor: 0 } : complete
    },
  }
}

function overlaid(
  compiled: readonly Compiled[],
  held: Awaited<ReturnType<PublisherDatabase['held']>>['held'],
  onLost: (key: RecordKey) => void,
): Compiled[] {
  if (held.size === 0) return [...compiled]
  const result = compiled.filter(({ key }) => !held.has(key))
  for (const [key, previous] of held) {
    if (previous === 'unknown') onLost(key)
    else result.push({ key, ...previous })
  }
  return result
}
