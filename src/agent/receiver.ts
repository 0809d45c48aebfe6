import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import { type KV, Kvm } from '@nats-io/kv'
import type { NatsConnection } from '@nats-io/transport-node'
import {
  type Batch,
  batchSubject,
  blobBucket,
  type Progress,
  progressKey,
  recordBucket,
} from '../distribution/channels.ts'
import type { EdgeRecord, RecordKey } from '../distribution/records.ts'
import { digestOf, open, openRecord, type TrustedKeys } from '../distribution/signature.ts'
import { recordFormat } from '../distribution/validate.ts'
import { readBucket } from './bucket_reader.ts'
import type { Announced, BucketEntry, Place } from './intake.ts'

export type Refused = { key: string; generation: number | null; reason: string }

/** Called in order of arrival, and only with verified records. */
type Handlers = {
  announced: (batch: Announced) => void
  /** The bucket is read from here on; `resumed` from where it was left. */
  opened: (made: string, resumed: boolean) => void
  entry: (entry: BucketEntry) => void
  refused: (refused: Refused) => void
}

/** Listens to both ways: plain messages for speed, the bucket for completeness. Nothing is believed without a signature. */
export function createReceiver(
  nats: NatsConnection,
  keys: TrustedKeys,
  { announced, opened, entry: entryRead, refused }: Handlers,
) {
  const readProgress = (sealed: string, records?: readonly string[]): Progress | undefined => {
    const unsealed = open(sealed, keys)
    if ('fault' in unsealed) {
      refused({ key: progressKey, generation: null, reason: unsealed.fault })
      return undefined
    }
    const said = (unsealed.payload ?? {}) as Progress
    if (records && said.digest !== digestOf(records)) {
      refused({ key: progressKey, generation: null, reason: 'came with other records than it was signed for' })
      return undefined
    }
    const progress = progressIn(said)
    if (!progress) refused({ key: progressKey, generation: null, reason: 'is not a progress' })
    return progress
  }
  const readRecord = (sealed: string, key?: string): EdgeRecord | undefined => {
    const record = openRecord(sealed, keys, key)
    if (!('fault' in record)) return record
    refused({ key: key ?? 'unknown', generation: record.generation ?? null, reason: record.fault })
    return undefined
  }
  const isRecord = (record: EdgeRecord | undefined): record is EdgeRecord => record !== undefined

  const subscription = nats.subscribe(batchSubject, {
    callback(error, message) {
      if (error) return
      const batch = readBatch(message.string())
      if (!batch) return refused({ key: batchSubject, generation: null, reason: 'is not a batch' })
      const records = batch.records.map((sealed) => readRecord(sealed))
      const progress = readProgress(batch.progress, batch.records)
      // With one of its records missing a batch is no whole. The bucket brings the others.
      if (records.every(isRecord) && progress) announced({ records, progress })
    },
  })

  return {
    /**
     * Reads the bucket on from where it was left, for good; another bucket, made because NATS had lost the one before, from
     * its beginning. Throws when the connection to it breaks, when it is another one all of a sudden, and at the end.
     */
    async followBucket(from: Place, ending: AbortSignal): Promise<void> {
      const bucket = await openBucket(nats, recordBucket)
      const made = await bucketMadeAt(bucket)
      const place = `${made} read with ${[...keys.keys()].sort().join()} as ${recordFormat}`
      const known = place === from.bucket ? from.revision : 0
      opened(made, known > 0)
      const reading = new AbortController()
      const signal = AbortSignal.any([reading.signal, ending])
      const stopLooking = watchBucketIdentity(bucket, made, () => reading.abort())
      try {
        for await (const { key, revision, text, pending } of readBucket(nats, recordBucket, known + 1, signal)) {
          const read = { bucket: place, revision }
          if (key === progressKey) entryRead({ progress: readProgress(text), read, pending })
          else entryRead({ record: readRecord(text, key), read, pending })
        }
      } finally {
        stopLooking()
        reading.abort()
      }
      throw new Error('the bucket was replaced by another one')
    },
    async fetchBlob(name: string): Promise<Buffer | undefined> {
      const entry = await (await openBucket(nats, blobBucket)).get(name)
      return entry ? Buffer.from(entry.value) : undefined
    },
    /** Asks the leader: a replica that is behind could lack what was written last. */
    async hasRecord(key: RecordKey): Promise<boolean> {
      const { streams } = await jetstreamManager(nats, { checkAPI: false })
      return (await streams.getMessage(`KV_${recordBucket}`, { last_by_subj: `$KV.${recordBucket}.${key}` })) !== null
    },
    stop: () => subscription.unsubscribe(),
  }
}

const lookEveryMs = 3_000

const bucketMadeAt = async (bucket: KV): Promise<string> => (await bucket.status()).streamInfo.created

/** A recreated bucket restarts its revisions, so continuing from the old one would wait forever. */
function watchBucketIdentity(bucket: KV, made: string, onOther: () => void): () => void {
  const timer = setInterval(async () => {
    const now = await bucketMadeAt(bucket).catch(() => undefined)
    if (now !== undefined && now !== made) onOther()
  }, lookEveryMs)
  return () => clearInterval(timer)
}

const openBucket = (nats: NatsConnection, name: string): Promise<KV> => new Kvm(jetstream(nats)).open(name)

function progressIn({ after, settled, complete, floor }: Progress): Progress | undefined {
  if (!Number.isSafeInteger(after) || !Number.isSafeInteger(settled)) return undefined
  return {
    after,
    settled,
    ...(typeof complete === 'string' && { complete }),
    ...(Number.isSafeInteger(floor) && { floor }),
  }
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
