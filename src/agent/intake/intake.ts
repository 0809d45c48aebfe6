import type { Progress } from '../../distribution/channels.ts'
import type { Signed } from '../../distribution/live_set.ts'
import type { EdgeRecord } from '../../distribution/records.ts'
import type { ReadRecord } from './sealed_reader.ts'
import { createStaging } from './staging.ts'

/** A complete and verified batch that arrived as a plain message. */
export type Announced = { records: readonly EdgeRecord[]; progress: Progress }
/** An entry of the bucket. `pending`: how many more the server had when it sent this one. */
export type BucketEntry = ReadRecord & { progress?: Progress; read: Place; pending: number }
/**
 * A revision is valid only for the same bucket (identified by its creation time), trusted keys and record format: a node
 * with another key or a later version reads refused records again.
 */
export type Place = { bucket: string; revision: number }

/** Consistent: a node that has applied it knows everything up to `applied`, and nothing later. */
export type Released = {
  records: readonly EdgeRecord[]
  applied: number
  read?: Place
  /** Comes from the progress, if that describes the bucket that was just read to its end. */
  floor?: number
  /** The digest of all live records once these are applied, if the progress has one. */
  live?: string
  /** Arrived with these records, but cannot be applied on this node. */
  unusable?: readonly Signed[]
  /** The digest confirms that these are all records there are: the node must forget any other. */
  isWhole?: true
}

const maxWaitingRecords = 50_000
/** Without a limit, batches would accumulate after a lost message. */
export const maxWaitingMessages = 10_000

/**
 * Holds back arrivals until they form a consistent whole, so that a node never enforces a partial read: a route without
 * the narrower one beside it, an edge without the restrictions of its account.
 *
 * A message is released when it continues what was released before. Entries from the bucket are released when the server
 * has no more, and a progress covers all that was read and marks this very bucket complete: a bucket that is being
 * refilled has a progress, too. The digest of all live records reveals what NATS has lost or hides. The progress of a
 * publisher before 0.3 has no digest; then no record may be replaced by something unverified.
 */
export function createIntake(start: { applied: number; complete: boolean }) {
  let { applied, complete } = start
  const waiting = createWaiting()
  let staging = createStaging(true)
  let progress: Progress | undefined
  let bucket = ''
  let fromItsBeginning = true
  let pending: number | undefined
  let differs = false

  function continued(): Released[] {
    const released: Released[] = []
    waiting.forEachFrom(
      () => applied,
      ({ records, progress: said }) => released.push(release(records, said)),
    )
    return released
  }

  function release(records: readonly EdgeRecord[], { settled, live }: Progress, read?: Place): Released {
    applied = Math.max(applied, settled)
    return { records, applied, ...(live !== undefined && settled === applied && { live }), ...(read && { read }) }
  }

  return {
    /**
     * Resumed: the node knows everything up to where it left the bucket. Otherwise it reads the bucket from its
     * beginning. `reached`: how far the node has come, if less far than what was released.
     */
    opened(made: string, resumed: boolean, reached = applied): void {
      applied = reached
      progress = undefined
      differs = false
      pending = undefined
      bucket = made
      fromItsBeginning = !resumed || !complete
      staging = createStaging(fromItsBeginning)
    },

    announced(batch: Announced): Released[] {
      const { records, progress: said } = batch
      // Ignores an old batch that is sent again: it would restore what has been deleted since then.
      if (complete && said.settled <= applied) return []
      if (complete && said.after <= applied) return [release(records, said), ...continued()]
      waiting.add(batch)
      return []
    },

    entry(entry: BucketEntry): Released[] {
      pending = entry.pending
      staging.add(entry)
      progress = entry.progress ?? progress
      // A key that is written again during the read appears once, at its new place. Some entries may be missing until
      // nothing is pending.
      if (pending > 0 || !progress || staging.newest() > progress.settled) return []
      if (!isCovering(progress, bucket, applied)) return []
      differs = fromItsBeginning && !staging.isWhole(progress.live)
      if (differs) return []
      const released = release(staging.records(), progress, entry.read)
      const unusable = staging.unusable()
      if (progress.floor) released.floor = progress.floor
      if (unusable.length > 0) released.unusable = unusable
      if (fromItsBeginning && progress.live !== undefined) released.isWhole = true
      fromItsBeginning = false
      complete = true
      staging = createStaging(false)
      return [released, ...continued()]
    },

    /** True if everything that was read could be released, and no plain message arrived after a missing one. */
    isUpToDate: () => complete && !fromItsBeginning && staging.isEmpty() && waiting.isEmpty(),

    /** Progress of the read, for people. `pending` is undefined until the bucket is reached. */
    state: () => ({ complete, staged: staging.size(), pending, isReadingAll: fromItsBeginning, differs }),
  }
}

/** Batches that arrived before a missing one. Beyond a limit they are dropped, because the bucket has them too. */
function createWaiting() {
  let batches: Announced[] = []
  let recordCount = 0
  return {
    add(batch: Announced): void {
      if (batches.length >= maxWaitingMessages || recordCount + batch.records.length > maxWaitingRecords) return
      batches.push(batch)
      recordCount += batch.records.length
    },
    isEmpty: () => batches.length === 0,
    /** Calls `continues` for each batch that continues the current state, and forgets it together with older ones. */
    forEachFrom(applied: () => number, continues: (batch: Announced) => void): void {
      // Sorting lets one pass find every batch that continues the one before.
      batches.sort((a, b) => a.progress.after - b.progress.after)
      batches = batches.filter((batch) => {
        if (batch.progress.after > applied()) return true
        recordCount -= batch.records.length
        if (batch.progress.settled > applied()) continues(batch)
        return false
      })
    },
  }
}

/**
 * True if nothing is missing before a progress. Otherwise a node would report generations as applied that it has never
 * read.
 */
function isCovering(progress: Progress, bucket: string, applied: number): boolean {
  // A bucket from the past lacks newer records, which would count as deleted. And a publisher that was paused may write
  // an old batch into a bucket that NATS has reset, which would restore deleted records.
  if (progress.settled < applied) return false
  // Another bucket may have replaced the opened one and has to be read from its beginning. And a new publisher has not
  // compared the bucket yet and knows no digest: NATS, or an intruder there, may have lost even a part of its first
  // batch.
  return progress.complete === bucket
}
