import type { Progress } from '../distribution/channels.ts'
import type { EdgeRecord, RecordKey } from '../distribution/records.ts'

/** A batch that came as a plain message, whole and believed. */
export type Announced = { records: readonly EdgeRecord[]; progress: Progress }
/** An entry of the bucket. `pending`: how many more the server had for us when it sent this one. */
export type BucketEntry = { record?: EdgeRecord; progress?: Progress; read: Place; pending: number }
/**
 * A revision counts in one bucket only, known by when it was made, and for who believes the same keys and knows the same
 * records: whoever trusts another key, or is of a later version, reads again what was refused before.
 */
export type Place = { bucket: string; revision: number }

/** Consistent: a node that has applied it knows everything up to `applied`, and nothing later. */
export type Released = {
  records: readonly EdgeRecord[]
  applied: number
  read?: Place
  /** From the progress, if it describes the bucket that was just read to its end. */
  floor?: number
}

/** What messages may pile up while one is missing. The bucket has all of it, too. */
const maxWaitingRecords = 50_000

/**
 * Holds back what arrives until it is a consistent whole, so that a node never enforces half of what it read: a route
 * without the narrower one beside it, an edge without the restrictions of its account.
 *
 * A message is released when it continues what was released before. What comes from the bucket is released when the
 * server has nothing more for us and a progress covers all that was read. A node without anything complete, and one that
 * reads another bucket from its beginning, also need a progress that calls this very bucket complete: a bucket that is
 * being refilled has a progress, too.
 */
export function createIntake(start: { applied: number; complete: boolean }) {
  let { applied, complete } = start
  let waiting: Announced[] = []
  let waitingRecords = 0
  const staged = new Map<RecordKey, EdgeRecord>()
  let newest = 0
  let progress: Progress | undefined
  let bucket = ''
  let fromItsBeginning = true
  let pending: number | undefined

  function continued(): Released[] {
    const released: Released[] = []
    // Sorted, so that one pass finds every message that continues the one before.
    waiting.sort((a, b) => a.progress.after - b.progress.after)
    waiting = waiting.filter(({ records, progress: { after, settled } }) => {
      if (after > applied) return true
      waitingRecords -= records.length
      if (settled > applied) released.push(release(records, settled))
      return false
    })
    return released
  }

  function release(records: readonly EdgeRecord[], settled: number, read?: Place): Released {
    applied = Math.max(applied, settled)
    return { records, applied, ...(read && { read }) }
  }

  return {
    /** Resumed: everything up to where the bucket was left is known. Otherwise it is read from its beginning. */
    opened(made: string, resumed: boolean): void {
      staged.clear()
      newest = 0
      progress = undefined
      pending = undefined
      bucket = made
      fromItsBeginning = !resumed || !complete
    },

    announced(batch: Announced): Released[] {
      const { records, progress: said } = batch
      if (complete && said.after <= applied) return [release(records, said.settled), ...continued()]
      if (waitingRecords + records.length > maxWaitingRecords) return []
      waiting.push(batch)
      waitingRecords += records.length
      return []
    },

    entry({ record, progress: said, read, pending: more }: BucketEntry): Released[] {
      pending = more
      if (record) {
        const before = staged.get(record.key)
        if (!before || record.generation > before.generation) staged.set(record.key, record)
        newest = Math.max(newest, record.generation)
      }
      if (said) progress = said
      // A key that is written again while we read comes once, at its new place: until nothing is pending, some may be missing.
      if (more > 0 || !progress || newest > progress.settled) return []
      if (fromItsBeginning && progress.complete !== bucket) return []
      fromItsBeginning = false
      complete = true
      const released = release([...staged.values()], progress.settled, read)
      if (progress.complete === bucket && progress.floor) released.floor = progress.floor
      staged.clear()
      newest = 0
      return [released, ...continued()]
    },

    /** For people: how far a read has come. `pending` is undefined before the bucket was reached. */
    state: () => ({ complete, staged: staged.size, pending }),
  }
}
