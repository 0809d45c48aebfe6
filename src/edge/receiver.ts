import { jetstream } from '@nats-io/jetstream'
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
import type { EdgeRecord } from '../distribution/records.ts'
import { digestOf, open, openRecord, type TrustedKeys } from '../distribution/signature.ts'
import type { Announced, BucketEntry, Place } from './intake.ts'

export type Refused = { key: string; generation: number | null; reason: string }

/** Called in the order in which things arrive, and only with what is believed. */
type Handlers = {
  announced: (batch: Announced) => void
  /** The bucket is read from here on; `resumed` from where it was left. */
  opened: (made: string, resumed: boolean) => void
  entry: (entry: BucketEntry) => void
  /** The server had more and did not send it: asked again from here on. */
  stalled: (revision: number) => void
  refused: (refused: Refused) => void
}

/** Listens to both ways: plain messages for speed, the bucket for completeness. Nothing is believed without a signature. */
export function createReceiver(
  nats: NatsConnection,
  keys: TrustedKeys,
  { announced, opened, entry: entryRead, stalled: stalledAt, refused }: Handlers,
) {
  const readProgress = (sealed: string, records?: readonly string[]): Progress | undefined => {
    const unsealed = open(sealed, keys)
    if ('fault' in unsealed) {
      refused({ key: progressKey, generation: null, reason: unsealed.fault })
      return undefined
    }
    const { after, settled, digest, complete } = (unsealed.payload ?? {}) as Progress
    if (records && digest !== digestOf(records)) {
      refused({ key: progressKey, generation: null, reason: 'came with other records than it was signed for' })
      return undefined
    }
    if (Number.isSafeInteger(after) && Number.isSafeInteger(settled))
      return { after, settled, ...(typeof complete === 'string' && { complete }) }
    refused({ key: progressKey, generation: null, reason: 'is not a progress' })
    return undefined
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
     * its beginning. Throws when the connection to it breaks, or when it is another one all of a sudden.
     */
    async followBucket(from: Place): Promise<void> {
      const bucket = await openBucket(nats, recordBucket)
      const made = await bucketMadeAt(bucket)
      const place = `${made} read with ${[...keys.keys()].sort().join()}`
      const resumed = place === from.bucket && from.revision > 0
      let revision = resumed ? from.revision : 0
      opened(made, resumed)
      for (;;) {
        const watch = await bucket.watch(revision > 0 ? { resumeFromRevision: revision + 1 } : {})
        let pending = Number.POSITIVE_INFINITY
        let behind = { at: -1, since: 0 }
        let stalled = false
        const stopLooking = lookAt(bucket, ({ created, state: { last_seq: last } }) => {
          if (created !== made) return watch.stop()
          if (last > revision) {
            if (behind.at !== revision) behind = { at: revision, since: Date.now() }
            stalled = Date.now() - behind.since >= stalledAfterMs
            if (stalled) watch.stop()
          } else if (pending > 0 && revision > 0) {
            pending = 0
            entryRead({ read: { bucket: place, revision }, pending })
          }
        })
        try {
          for await (const entry of watch) {
            revision = entry.revision
            pending = entry.delta ?? 0
            const read = { bucket: place, revision }
            if (entry.key === progressKey) entryRead({ progress: readProgress(entry.string()), read, pending })
            else entryRead({ record: readRecord(entry.string(), entry.key), read, pending })
          }
        } finally {
          stopLooking()
          watch.stop()
        }
        if (!stalled) throw new Error('the watch of the bucket ended')
        stalledAt(revision)
      }
    },
    async fetchBlob(name: string): Promise<Buffer | undefined> {
      const entry = await (await openBucket(nats, blobBucket)).get(name)
      return entry ? Buffer.from(entry.value) : undefined
    },
    stop: () => subscription.unsubscribe(),
  }
}

const lookEveryMs = 3_000
const stalledAfterMs = 9_000

type StreamState = Awaited<ReturnType<KV['status']>>['streamInfo']
const bucketMadeAt = async (bucket: KV): Promise<string> => (await bucket.status()).streamInfo.created

/**
 * A watch goes on counting when the bucket under it is made anew, and would wait for revisions that are long gone; on a busy
 * machine it may also stop delivering, or count what is pending wrong. So the server is asked how far it is.
 */
function lookAt(bucket: KV, onState: (state: StreamState) => void): () => void {
  const timer = setInterval(async () => {
    const status = await bucket.status().catch(() => undefined)
    if (status) onState(status.streamInfo)
  }, lookEveryMs)
  return () => clearInterval(timer)
}

const openBucket = (nats: NatsConnection, name: string): Promise<KV> => new Kvm(jetstream(nats)).open(name)

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
