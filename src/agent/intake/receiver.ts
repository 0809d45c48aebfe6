import type { NatsConnection } from '@nats-io/transport-node'
import type { BucketApi } from '../../distribution/bucket_api.ts'
import { type Batch, type Channels, progressKey } from '../../distribution/channels.ts'
import type { EdgeRecord, RecordKey } from '../../distribution/records.ts'
import type { TrustedKeys } from '../../distribution/signature.ts'
import { recordFormat } from '../../distribution/validate.ts'
import { type Stop, spread, type Timing, wait } from '../../kernel/timing.ts'
import { readBucket } from './bucket_reader.ts'
import type { Announced, BucketEntry, Place } from './intake.ts'
import { createSealedReader, type Refused } from './sealed_reader.ts'

/** Called in order of arrival, and only with verified records. */
type Handlers = {
  announced: (batch: Announced) => void
  /** Reading starts here: at the last position if `resumed`, otherwise at the beginning. */
  opened: (made: string, resumed: boolean) => void
  entry: (entry: BucketEntry) => void
  refused: (refused: Refused) => void
  /** True if, as far as the node can tell, it has everything that the control plane has sent. */
  isUpToDate: () => boolean
}

type Parts = {
  nats: Pick<NatsConnection, 'subscribe'>
  channels: Channels
  /** Called whenever the bucket is opened. */
  openApi: () => Promise<BucketApi>
  keys: TrustedKeys
  timing: Timing
  onSharedAccount?: () => void
}

/**
 * Listens to both channels: plain messages for speed, the bucket for completeness. It believes nothing without a
 * signature.
 */
export function createReceiver(
  { nats, channels, openApi, keys, timing, onSharedAccount = () => {} }: Parts,
  { announced, opened, entry: entryRead, refused, isUpToDate }: Handlers,
) {
  const { readProgress, readRecord } = createSealedReader(keys, refused)

  const subscription = nats.subscribe(channels.batches, {
    callback(error, message) {
      if (error) return
      const batch = readBatch(message.string())
      if (!batch) return refused({ key: channels.batches, generation: null, reason: 'is not a batch' })
      const records = batch.records.map((sealed) => readRecord(sealed).record)
      const progress = readProgress(batch.progress, batch.records)
      // A batch with an unusable record is incomplete. The bucket supplies the others.
      if (records.every(isRecord) && progress) announced({ records, progress })
    },
  })

  let api: BucketApi | undefined
  let reading: AbortController | undefined
  let isFromBeginning = false
  /** Ends `followBucket`, whose next call reads everything. */
  function readAgain(): void {
    isFromBeginning = true
    reading?.abort()
  }
  async function reopen(): Promise<BucketApi> {
    api = await openApi()
    return api
  }
  /** Asks the leader: a lagging replica could lack the latest write. */
  async function lastOf(bucket: string, key: string): Promise<Buffer | undefined> {
    const { streams } = api ?? (await reopen())
    const found = await streams.getMessage(`KV_${bucket}`, { last_by_subj: `$KV.${bucket}.${key}` })
    return found ? Buffer.from(found.data) : undefined
  }

  /**
   * Reads the bucket from the last position until the signal aborts, or from its beginning if NATS has lost the bucket
   * and another one took its place. Never resolves: it throws when the connection breaks, when everything has to be read
   * again, and when the signal aborts.
   */
  async function followBucket(from: Place, ending: AbortSignal): Promise<void> {
    const { streams, direct, isShared } = await reopen()
    const look = () => bucketState(streams, channels)
    const { made, last } = await look()
    if (isShared) onSharedAccount()
    const place = `${made} read with ${[...keys.keys()].sort().join()} as ${recordFormat}`
    const known = place === from.bucket && !isFromBeginning && from.revision <= last ? from.revision : 0
    let revisionRead = known
    isFromBeginning = false
    opened(made, known > 0)
    reading = new AbortController()
    const signal = AbortSignal.any([reading.signal, ending])
    const stopLooking = watchBucket(timing, look, () => ({ made, last: revisionRead }), readAgain)
    try {
      const entries = readBucket({ streams, direct }, channels.records, known + 1, timing, signal, isUpToDate)
      for await (const { key, revision, text, pending } of entries) {
        revisionRead = revision
        const read = { bucket: place, revision }
        if (key === progressKey) entryRead({ progress: readProgress(text), read, pending })
        else entryRead({ ...readRecord(text, key), read, pending })
      }
    } finally {
      stopLooking()
      reading.abort()
    }
    throw new Error('reading it again from its beginning')
  }

  return {
    followBucket,
    readAgain,
    fetchBlob: (name: string): Promise<Buffer | undefined> => lastOf(channels.blobs, name),
    hasRecord: async (key: RecordKey): Promise<boolean> => (await lastOf(channels.records, key)) !== undefined,
    stop: () => subscription.unsubscribe(),
  }
}

export type Receiver = ReturnType<typeof createReceiver>

type Following = {
  timing: Timing
  receiver: Pick<Receiver, 'followBucket'>
  place: () => Place
  onFailure: (error: Error) => void
}

/** Reads the bucket until the signal aborts, and retries after a delay when that fails. */
export async function follow({ timing, receiver, place, onFailure }: Following, ending: AbortSignal): Promise<void> {
  while (!ending.aborted) {
    try {
      await receiver.followBucket(place(), ending)
    } catch (error) {
      if (ending.aborted) return
      onFailure(error as Error)
      await wait(timing, retryMs + timing.random() * spreadMs, ending)
    }
  }
}

const isRecord = (record: EdgeRecord | undefined): record is EdgeRecord => record !== undefined

const lookEveryMs = 10_000
const retryMs = 500
/** Spreads the nodes over this time: all of them read everything again when the bucket was replaced. */
const spreadMs = 2_000

type BucketState = { made: string; last: number }
async function bucketState(streams: BucketApi['streams'], { records }: Channels): Promise<BucketState> {
  const { created, state } = await streams.info(`KV_${records}`)
  return { made: created, last: state.last_seq }
}

/**
 * Detects a bucket that was recreated or has lost writes: its revisions restart, and a reader that resumes from an old
 * one would wait forever.
 */
function watchBucket(
  timing: Timing,
  look: () => Promise<BucketState>,
  read: () => BucketState,
  onOther: () => void,
): Stop {
  return timing.every(spread(timing, lookEveryMs), async () => {
    // Taken before the query, because entries read meanwhile may be newer than the answer.
    const { made, last } = read()
    const now = await look().catch(() => undefined)
    if (now && (now.made !== made || now.last < last)) onOther()
  })
}

function readBatch(text: string): Batch | undefined {
  try {
    const { progress, records } = JSON.parse(text) as Batch
    return typeof progress === 'string' &&
      Array.isArray(records) &&
      records.every((record) => typeof record === 'string')
      ? { progress, records }
      : undefined
  } catch {
    return undefined
  }
}
