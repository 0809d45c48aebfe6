import type { Progress } from '../distribution/channels.ts'
import type { RecordKey } from '../distribution/records.ts'
import type { Log } from '../kernel/log.ts'
import type { Timing } from '../kernel/timing.ts'
import type { LiveRecords } from './bucket/live_records.ts'
import type { NatsSink } from './bucket/nats_sink.ts'
import type { PublisherDatabase } from './database.ts'
import { countHeldBack, describeHeldBack } from './missing_guard.ts'
import { reconcile } from './reconcile.ts'
import { type CompileContext, notingUnavailable } from './records/changed.ts'

const everyMs = 10 * 60 * 1_000
const retryAfterMs = 10_000
/** Under constant load, the comparison waits no longer than this. */
const waitForQuietMs = 30_000
/** Minimum time between two comparisons due to nodes' refusals. */
const shortestWaitMs = 5_000
const maxSuspects = 100

type Parts = {
  database: PublisherDatabase
  natsSink: NatsSink
  timing: Pick<Timing, 'now' | 'elapsed'>
  log: Log
  context: CompileContext
  /** Called after each pass with the records that cannot be sent, and with how much was held back and why. */
  onCompared: (withheld: ReadonlyMap<RecordKey, string>, heldBack: number, reason: string | undefined) => void
  live: LiveRecords
}

/**
 * Decides when to reconcile: at the start, every ten minutes, when the signing key changes, and when nodes refuse
 * unsigned entries. Runs concurrently with publishing: comparing 100,000 records takes seconds, and a change made
 * meanwhile is at worst sent twice.
 */
export function createReconciler(
  { database, natsSink, timing, log, context, onCompared, live }: Parts,
  signal: AbortSignal,
) {
  // Monotonic: a clock that jumps back must not delay the next comparison.
  const { elapsed } = timing
  let due = elapsed()
  let signedBy: string | undefined
  /** The last completed pass, and whether a progress message has announced it to nodes. */
  let compared: { keyId: string; generation: number; floor: number; isSaid: boolean } | undefined
  let isRunning = false
  const suspects = new Set<string>()
  /** Doubles after each comparison that nodes caused in vain, so that one node cannot keep the database busy. */
  let suspicionWaitMs = shortestWaitMs
  let suspicionAt = 0

  async function run(keyId: string): Promise<void> {
    isRunning = true
    const isSuspicion = suspects.size > 0
    const comparison = live.beginComparison()
    try {
      const withheld = new Map<RecordKey, string>()
      const compiling = { ...notingUnavailable(context, withheld), maxMessageBytes: natsSink.maxMessageBytes() }
      const about = { context: compiling, live: comparison, suspects: [...suspects] }
      suspects.clear()
      const found = await reconcile(database, natsSink, keyId, timing.now(), signal, about)
      const { healed, removed, generation, floor, heldBack } = found
      comparison.end()
      compared = { keyId, generation, floor, isSaid: false }
      if (isSuspicion) suspicionWaitMs = healed + removed > 0 ? shortestWaitMs : Math.min(suspicionWaitMs * 2, everyMs)
      if (removed) log.warn({ entries: removed }, 'publisher: removed unsigned entries from the bucket')
      if (healed)
        log.warn({ records: healed }, 'publisher: the bucket differed from the database; publishing the differences')
      const reason = describeHeldBack(heldBack)
      onCompared(withheld, countHeldBack(heldBack), reason)
      if (reason) log.error({}, `publisher: ${reason}`)
      due = elapsed() + everyMs
    } catch (err) {
      if (!signal.aborted) log.warn({ err }, 'publisher: cannot compare the bucket with the database yet')
      due = elapsed() + retryAfterMs
    }
    isRunning = false
  }

  return {
    /** A node refused the entry under this key as unsigned. */
    suspect(key: string): void {
      if (suspects.size < maxSuspects) suspects.add(key)
    },
    /** Called often. `isQuiet`: nothing is being sent, so nothing would be sent twice. */
    reconcileIfDue(keyId: string, isQuiet: boolean): void {
      const now = elapsed()
      if (signedBy !== undefined && signedBy !== keyId) due = now
      signedBy = keyId
      if (suspects.size > 0 && !isRunning && now >= suspicionAt) {
        due = Math.min(due, now)
        suspicionAt = now + suspicionWaitMs
      }
      if (!isRunning && now >= due + (isQuiet ? 0 : waitForQuietMs)) void run(keyId)
    },
    /** True during a comparison, and when one is due. */
    isBusy: (): boolean => isRunning || elapsed() >= due,
    /**
     * Describes the bucket once it holds everything up to this generation, signed with this key; empty until then. Only
     * a comparison can establish that: the publisher may have started with a bucket that NATS had lost, and which is
     * therefore empty.
     */
    completeAt(keyId: string, settled: number): Pick<Progress, 'complete' | 'floor' | 'live'> {
      if (compared?.keyId !== keyId || settled < compared.generation) return {}
      compared.isSaid = true
      return { complete: natsSink.bucketCreated, floor: compared.floor, live: live.digest() }
    },
    isCompleteAt: (keyId: string, settled: number): boolean =>
      compared?.keyId === keyId && settled >= compared.generation,
    /** No change carries it, so it needs a progress entry of its own. */
    needsAnnouncement: (keyId: string, settled: number): boolean =>
      compared?.keyId === keyId && settled >= compared.generation && !compared.isSaid,
  }
}
