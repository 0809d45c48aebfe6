import type { EdgeRecord, RecordKey } from '../../distribution/records.ts'
import { inParallel } from '../../kernel/flow/in_parallel.ts'
import type { Log } from '../../kernel/log.ts'
import type { Released } from './intake.ts'

/** Whether the bucket has the record; undefined without a connection. */
export type HasRecord = (key: RecordKey) => Promise<boolean | undefined>

/**
 * Finds deletions that never reached this node, because the bucket lost them while the node was away, or the database
 * was restored to a point before the resource was created. Everything that exists has been sent again since then, at or
 * above the floor. A record below it that the bucket lacks too was deleted. A record that is in the bucket was refused
 * here, so its last valid version stays.
 */
export function createMissedDeletions(log: Log, living: () => Iterable<EdgeRecord>, hasRecord: HasRecord) {
  let floor = 0
  let appliedFloor = 0

  /** Undefined if NATS does not answer for all of them. */
  async function goneBelow(generation: number): Promise<RecordKey[] | undefined> {
    const gone: RecordKey[] = []
    const asked: EdgeRecord[] = []
    for (const record of living()) if (record.generation < generation) asked.push(record)
    try {
      const found = await inParallel(asked, 32, async ({ key }) => {
        const has = await hasRecord(key)
        if (has === false) gone.push(key)
        return has
      })
      return found.includes(undefined) ? undefined : gone
    } catch (err) {
      log.warn({ err }, 'cannot ask NATS which records are gone; retrying in a second')
      return undefined
    }
  }

  return {
    /** Call it once these records are applied. */
    noteFloor(released: readonly Released[]): void {
      for (const each of released) floor = Math.max(floor, each.floor ?? 0)
    },
    isDue: (): boolean => floor > appliedFloor,
    /** Stays due until NATS has answered and the deletions are applied. */
    async apply(take: (deletions: Released[]) => Promise<void>): Promise<void> {
      const below = floor
      const gone = await goneBelow(below)
      if (!gone) return
      if (gone.length > 0) {
        log.warn(
          { records: gone.length, keys: gone.slice(0, 20) },
          'removing what the control plane no longer has: it was deleted before NATS lost its data, or is not in the restored database',
        )
        await take([{ records: gone.map((key) => ({ key, generation: below, value: null })), applied: below }])
      }
      appliedFloor = below
    },
  }
}
