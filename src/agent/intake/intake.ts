import type { Progress } from '../../distribution/channels.ts'
import type { Signed } from '../../distribution/live_set.ts'
import type { EdgeRecord } from '../../distribution/records.ts'
import type { ReadRecord } from './sealed_reader.ts'
import { createStaging } from './staging.ts'

/** A batch that came as a plain message, whole and believed. */
export type Announced = { records: readonly EdgeRecord[]; progress: Progress }
/** An entry of the bucket. `pending`: how many more the server had for us when it sent this one. */
export type BucketEntry = ReadRecord & { progress?: Progress; read: Place; pending: number }
/**
 * A revision is valid only for the same bucket (known by its creation time), trusted keys and record format: a node with
 * another key or a later version reads refused records again.
 */
export type Place = { bucket: string; revision: number }

/** Consistent: a node that has applied it knows everything up to `applied`, and nothing later. */
export type Released = {
  records: readonly EdgeRecord[]
  applied: number
  read?: Place
  /** From the progress, if it describes the bucket that was just read to its end. */
  floor?: number
  /** The digest of all live records once these are applied, if the progress has one. */
  live?: string
  /** Arrived with them, and cannot be applied here. */
  unusable?: readonly Signed[]
  /** All records there are, by that digest: the node must forget any other. */
  isWhole?: true
}

const maxWaitingRecords = 50_000
/** Messages without a record would otherwise pile up without limit. */
export const maxWaitingMessages = 10_000

/**
 * Holds back what arrives until it is a consistent whole, so that a node never enforces half of what it read: a route
 * without the narrower one beside it, an edge without the restrictions of its account.
 *
 * A message is released when it continues what was released before. What comes from the bucket is released when the
 * server has nothing more for us, and a progress covers all that was read and calls this very bucket complete: one that is
 * being refilled has a progress, too. The digest of all live records shows what NATS may have lost, or hides. A progress of
 * a publisher before 0.3 has no digest: then nothing unverified may stand in the place of a record.
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
     * Resumed: everything up to where the bucket was left is known. Otherwise it is read from its beginning. `reached`: how far
     * the node has come, if not as far as what was released.
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
      // An old batch that is sent again: what has been deleted since then would come back.
      if (complete && said.settled <= applied) return []
      if (complete && said.after <= applied) return [release(records, said), ...continued()]
      waiting.add(batch)
      return []
    },

    entry(entry: BucketEntry): Released[] {
      pending = entry.pending
      staging.add(entry)
      progress = entry.progress ?? progress
      // A key that is written again while we read comes once, at its new place: until nothing is pending, some may be missing.
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

    /** Everything that was read could be released, and no plain message came after one that is missing. */
    isUpToDate: () => complete && !fromItsBeginning && staging.isEmpty() && waiting.isEmpty(),

    /** For people: how far a read has come. `pending` is undefined before the bucket was reached. */
    state: () => ({ complete, staged: staging.size(), pending, isReadingAll: fromItsBeginning, differs }),
  }
}

/** Batches that came before one that is missing. The bucket has all of them, too, so beyond a limit they are dropped. */
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
    /** Each that continues what is applied by then, and forgets it and those that are older. */
    forEachFrom(applied: () => number, continues: (batch: Announced) => void): void {
      // Sorted, so that one pass finds every batch that continues the one before.
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

/** Whether nothing is missing before a progress: otherwise a node would call applied what it has never read. */
function isCovering(progress: Progress, bucket: string, applied: number): boolean {
  // A bucket of the past lacks what was made since then, which would count as deleted. And a publisher that stood still may
  // put an old batch into a bucket that NATS has set back: what was deleted since then would come back.
  if (progress.settled < applied) return false
  // Another bucket may have taken the place of the one that was opened, and has to be read from its beginning. And a new publisher
  // has not compared the bucket yet and knows no digest: NATS, or an intruder there, may have lost even a part of its first batch.
  return progress.complete === bucket
}
