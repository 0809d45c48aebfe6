import {
  JetStreamApiCodes,
  JetStreamApiError,
  jetstream,
  jetstreamManager,
  type StreamAPI,
  type StreamInfo,
} from '@nats-io/jetstream'
import { type KV, Kvm } from '@nats-io/kv'
import type { NatsConnection } from '@nats-io/transport-node'
import { type Batch, batchSubject, blobBucket, progressKey, recordBucket } from '../distribution/channels.ts'
import { inParallel } from '../kernel/in_parallel.ts'
import { type Blobs, createBlobs } from './blobs.ts'

/** Below the limit of a NATS message with room for the envelope. */
const largestMessage = 900_000

/** The two channels: a plain message that arrives in a millisecond, and the bucket that persists. */
export type NatsSink = Blobs & {
  /** When the bucket was created: a different time means that its records are gone. */
  readonly bucketCreated: string
  /** False when it was too large for one message: then it goes through the bucket alone. */
  announce: (batch: Batch) => boolean
  /**
   * Resolves to the revision of its last write. `kept` is what an attempt before had put already, and grows: under load,
   * one of thousands may time out each time.
   */
  keep: (batch: Batch, keys: readonly string[], kept?: Set<string>) => Promise<number>
  /** Everything in the bucket, by key. `read` says what is kept of each: all of a million records would not fit into memory. */
  contents: <Kept>(read: (text: string) => Kept) => Promise<Map<string, Kept>>
  /** False when an opened bucket is gone, was replaced or has lost writes: then everything must be sent again. */
  isIntact: () => Promise<boolean>
}

/** A bucket by when it was created, and its last acknowledged revision. */
export type LastWrite = { created: string | null; revision: number }

export async function openNatsSink(
  nats: NatsConnection,
  replicas: number,
  lastWrite: LastWrite = { created: null, revision: 0 },
): Promise<NatsSink> {
  const kvm = new Kvm(jetstream(nats))
  const options = { history: 1, replicas, timeout: 10_000 }
  const { streams } = await jetstreamManager(nats)
  const infoOf = (bucket: string) => streams.info(`KV_${bucket}`)
  let records = await kvm.create(recordBucket, options)
  if (await deleteIfBehind(streams, await infoOf(recordBucket), lastWrite))
    records = await kvm.create(recordBucket, options)
  const blobs = await kvm.create(blobBucket, options)
  const created = { records: (await infoOf(recordBucket)).created, blobs: (await infoOf(blobBucket)).created }
  let written = 0
  let hasLostWrites = false

  async function put(key: string, value: string): Promise<number> {
    const revision = await records.put(key, value)
    // It had acknowledged another write under this revision.
    if (revision <= written) hasLostWrites = true
    if (hasLostWrites) throw new Error('NATS has lost writes')
    return revision
  }

  return {
    bucketCreated: created.records,
    announce(batch) {
      const text = JSON.stringify(batch)
      if (text.length > largestMessage) return false
      nats.publish(batchSubject, text)
      return true
    },
    ...createBlobs(blobs, streams),
    async keep(batch, keys, kept = new Set()) {
      const all = batch.records.map((record, index) => [keys[index] as string, record] as const)
      const missing = all.filter(([key]) => !kept.has(key))
      await inParallel(missing, 64, async ([key, record]) => {
        await put(key, record)
        kept.add(key)
      })
      written = await put(progressKey, batch.progress)
      return written
    },
    contents: (read) => readAll(records, read),
    async isIntact() {
      try {
        // Read before asking: whatever was acknowledged by then must be in the answer.
        const revision = hasLostWrites ? Number.POSITIVE_INFINITY : written
        const [ofRecords, ofBlobs] = await Promise.all([infoOf(recordBucket), infoOf(blobBucket)])
        if (await deleteIfBehind(streams, ofRecords, { created: created.records, revision })) return false
        return ofRecords.created === created.records && ofBlobs.created === created.blobs
      } catch (error) {
        // Whoever does not answer, because of an election or the network, has not lost anything by that.
        return !(error instanceof JetStreamApiError && error.code === JetStreamApiCodes.StreamNotFound)
      }
    },
  }
}

/**
 * A power failure takes writes that NATS has acknowledged and not synced. Nodes that have read them would miss whatever
 * comes under the same revisions. So the bucket is deleted, and nodes read the next one from its beginning.
 */
async function deleteIfBehind(
  streams: StreamAPI,
  found: StreamInfo,
  { created, revision }: LastWrite,
): Promise<boolean> {
  if (found.created !== created || found.state.last_seq >= revision) return false
  return streams.delete(`KV_${recordBucket}`)
}

async function readAll<Kept>(bucket: KV, read: (text: string) => Kept): Promise<Map<string, Kept>> {
  const found = new Map<string, Kept>()
  // A watch of an empty bucket says nothing until something comes.
  if ((await bucket.status()).values === 0) return found
  const watch = await bucket.watch()
  for await (const entry of watch) {
    found.set(entry.key, read(entry.string()))
    if (entry.delta === 0) break
  }
  return found
}
