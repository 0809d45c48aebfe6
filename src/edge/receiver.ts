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

/** What arrived and was believed, in the order in which it arrived. */
export type Received = {
  records: EdgeRecord[]
  /** There when everything up to `settled` has arrived, given that everything up to `after` had. */
  progress?: Progress
  /** Up to where the bucket has been read, when it came from there. */
  read?: Place
}
/**
 * A revision counts in one bucket only, known by when it was made, and for who believes the same keys: whoever trusts
 * another one reads again what was refused before.
 */
export type Place = { bucket: string; revision: number }
export type Refused = { key: string; generation: number | null; reason: string }

type Handlers = { received: (received: Received) => void; refused: (refused: Refused) => void }

/** Listens to both ways: plain messages for speed, the bucket for completeness. Nothing is believed without a signature. */
export function createReceiver(nats: NatsConnection, keys: TrustedKeys, { received, refused }: Handlers) {
  const readProgress = (sealed: string, records?: readonly string[]): Progress | undefined => {
    const opened = open(sealed, keys)
    if ('fault' in opened) {
      refused({ key: progressKey, generation: null, reason: opened.fault })
      return undefined
    }
    const { after, settled, digest } = (opened.payload ?? {}) as Progress
    if (records && digest !== digestOf(records)) {
      refused({ key: progressKey, generation: null, reason: 'came with other records than it was signed for' })
      return undefined
    }
    if (Number.isSafeInteger(after) && Number.isSafeInteger(settled)) return { after, settled }
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
      const whole = records.every(isRecord)
      // With a record missing, nobody may think that everything has arrived.
      received({
        records: records.filter(isRecord),
        progress: whole ? readProgress(batch.progress, batch.records) : undefined,
      })
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
      const known = place === from.bucket ? from.revision : 0
      const watch = await bucket.watch(known > 0 ? { resumeFromRevision: known + 1 } : {})
      const stopLooking = lookAfter(bucket, made, () => watch.stop())
      try {
        for await (const entry of watch) {
          const read = { bucket: place, revision: entry.revision }
          if (entry.key === progressKey)
            received({
              records: [],
              progress: asComplete(readProgress(entry.string())),
              read,
            })
          else {
            const record = readRecord(entry.string(), entry.key)
            received({ records: record ? [record] : [], read })
          }
        }
      } finally {
        stopLooking()
        watch.stop()
      }
      throw new Error('the watch of the bucket ended')
    },
    async fetchBlob(name: string): Promise<Buffer | undefined> {
      const entry = await (await openBucket(nats, blobBucket)).get(name)
      return entry ? Buffer.from(entry.value) : undefined
    },
    stop: () => subscription.unsubscribe(),
  }
}

/** In the bucket a progress comes after everything that it speaks of, whatever came before. */
const asComplete = (progress: Progress | undefined): Progress | undefined => progress && { ...progress, after: 0 }

const lookEveryMs = 3_000

const bucketMadeAt = async (bucket: KV): Promise<string> => (await bucket.status()).streamInfo.created

/** A watch goes on counting when the bucket under it is made anew, and would wait for revisions that are long gone. */
function lookAfter(bucket: KV, made: string, onOther: () => void): () => void {
  const timer = setInterval(async () => {
    const now = await bucketMadeAt(bucket).catch(() => undefined)
    if (now !== undefined && now !== made) onOther()
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
