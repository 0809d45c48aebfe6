import { JetStreamApiCodes, JetStreamApiError } from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/transport-node'
import { type Batch, type Channels, defaultChannels, progressKey } from '../../distribution/channels.ts'
import { maxMessageBytes } from '../../distribution/nats_connection.ts'
import { inParallel } from '../../kernel/flow/in_parallel.ts'
import { yieldToEventLoop } from '../../kernel/flow/yield_to_event_loop.ts'
import type { LastWrite } from '../database.ts'
import { type Blobs, createBlobs } from './blobs.ts'
import type { Bucket, BucketServer, StreamFacts, Streams } from './bucket_server.ts'
import { createFencedBucket, type FenceOptions } from './fenced_bucket.ts'

/** Publishes over two channels: a plain message that arrives within a millisecond, and the bucket that persists. */
export type NatsSink = Blobs & {
  readonly bucket: string
  /** When the bucket was created. Another time means that the records of the old one are gone. */
  readonly bucketCreated: string
  /** Maximum size of a message on this server, headers included. */
  maxMessageBytes: () => number
  /** Never throws. False if the batch is too large for one message, and travels through the bucket alone. */
  announce: (batch: Batch) => boolean
  /**
   * Resolves to the revision of the batch's last write. `kept` has the keys that an earlier attempt has stored, and
   * grows: under load, one of thousands may time out each time.
   */
  keep: (batch: Batch, keys: readonly string[], kept?: Set<string>) => Promise<number>
  /**
   * Everything in the bucket, by key. `read` reduces each entry, because a million whole records would not fit into
   * memory.
   */
  contents: <Kept>(read: (text: string, key: string) => Kept) => Promise<Map<string, Kept>>
  /** The entry's text; undefined if there is none. */
  textOf: (key: string) => Promise<string | undefined>
  /** Like `textOf`, also for policy pieces, but asks the leader: the replica that answers reads may lag. */
  stored: (key: string) => Promise<string | undefined>
  storedBlob: (name: string) => Promise<Buffer | undefined>
  /** Deletes these keys without a trace, unlike a tombstone, which is a signed record. */
  remove: (keys: readonly string[]) => Promise<void>
  /** False if a bucket is gone, was replaced or has lost writes. Everything must then be sent again. */
  isIntact: () => Promise<boolean>
  /** Like `isIntact`, but rejects if NATS does not answer. */
  confirmIntact: () => Promise<boolean>
}

type SinkOptions = FenceOptions & {
  /** The bucket has a newer entry than the one to write, and keeps it. */
  onNewer?: (key: string) => void
}

/** Entries read before other work of the process runs: some 2 ms. */
const readAtOnce = 100

type PlainNats = Pick<NatsConnection, 'publish' | 'info'>

/** Both buckets of a cell, opened or created. */
export type Buckets = {
  channels: Channels
  records: Bucket
  blobs: Bucket
  streams: Streams
  created: { records: string; blobs: string }
}

export const openNatsSink = async (
  nats: PlainNats,
  server: BucketServer,
  channels: Channels,
  lastWrite?: LastWrite,
  options?: SinkOptions,
): Promise<NatsSink> => createNatsSink(nats, await openBuckets(server, channels, lastWrite), options)

export async function openBuckets(
  server: BucketServer,
  channels: Channels,
  lastWrite: LastWrite = { created: null, revision: 0 },
): Promise<Buckets> {
  const streams = await server.streams()
  // A new cell may find the buckets of an earlier cell of its name. The default cell of an earlier version did not
  // record its own.
  if (lastWrite.created === null && channels.records !== defaultChannels.records) await deleteBuckets(streams, channels)
  let records = await server.open(channels.records)
  if (await deleteIfBehind(streams, channels, await infoOf(streams, channels.records), lastWrite))
    records = await server.open(channels.records)
  const blobs = await server.open(channels.blobs)
  const [ofRecords, ofBlobs] = [await infoOf(streams, channels.records), await infoOf(streams, channels.blobs)]
  return { channels, records, blobs, streams, created: { records: ofRecords.created, blobs: ofBlobs.created } }
}

export async function deleteBuckets(streams: Streams, { records, blobs }: Channels): Promise<void> {
  for (const bucket of [records, blobs])
    await streams.delete(`KV_${bucket}`).catch((error: unknown) => {
      if (!isGone(error)) throw error
    })
}
const isGone = (error: unknown): boolean =>
  error instanceof JetStreamApiError && error.code === JetStreamApiCodes.StreamNotFound

const infoOf = (streams: Streams, bucket: string): Promise<StreamFacts> => streams.info(`KV_${bucket}`)

export async function createNatsSink(
  nats: PlainNats,
  { channels, records, blobs, streams, created }: Buckets,
  { onNewer = () => {}, ...fence }: SinkOptions = {},
): Promise<NatsSink> {
  let written = 0
  let hasLostWrites = false

  const fenced = createFencedBucket(records, fence)
  await fenced.expect(progressKey)

  async function put(key: string, value: string): Promise<number> {
    const { revision, outcome } = await fenced.put(key, value)
    // NATS had acknowledged another write under this revision.
    if (outcome === 'written' && revision <= written) hasLostWrites = true
    if (outcome === 'newer') onNewer(key)
    if (hasLostWrites) throw new Error('NATS has lost writes')
    return revision
  }

  return {
    bucket: channels.records,
    bucketCreated: created.records,
    maxMessageBytes: () => maxMessageBytes(nats),
    announce(batch) {
      const message = Buffer.from(JSON.stringify(batch))
      if (message.length > maxMessageBytes(nats)) return false
      try {
        nats.publish(channels.batches, message)
        return true
      } catch {
        // For example because the connection is closed. The bucket will have it, or the next publisher sends it.
        return false
      }
    },
    ...createBlobs(channels.blobs, blobs, streams),
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
    textOf: async (key) => (await records.get(key))?.string(),
    stored: async (key) => (await storedIn(channels.records, key))?.toString(),
    storedBlob: (name) => storedIn(channels.blobs, name),
    async remove(keys) {
      await inParallel(keys, 32, (key) =>
        streams.purge(`KV_${channels.records}`, { filter: `$KV.${channels.records}.${key}` }),
      )
    },
    confirmIntact: () =>
      isIntact().catch((error) => {
        if (isGone(error)) return false
        throw error
      }),
    // A time-out (election, network) is not evidence of data loss.
    isIntact: () => isIntact().catch((error) => !isGone(error)),
  }

  async function isIntact(): Promise<boolean> {
    // Read before asking: the answer must include everything acknowledged by now.
    const revision = hasLostWrites ? Number.POSITIVE_INFINITY : written
    const [ofRecords, ofBlobs] = await Promise.all([infoOf(streams, channels.records), infoOf(streams, channels.blobs)])
    if (await deleteIfBehind(streams, channels, ofRecords, { created: created.records, revision })) return false
    return ofRecords.created === created.records && ofBlobs.created === created.blobs
  }

  async function storedIn(bucket: string, key: string): Promise<Buffer | undefined> {
    const message = await streams.getMessage(`KV_${bucket}`, { last_by_subj: `$KV.${bucket}.${key}` })
    // The marker of a deleted key has no data.
    return message && message.data.length > 0 ? Buffer.from(message.data) : undefined
  }
}

/**
 * A power failure loses writes that NATS has acknowledged but not synced. Nodes that have read them would miss later
 * writes under the same revisions. The bucket is therefore deleted, and nodes read the new one from its beginning. A
 * process that was killed before it noticed the loss may have reused the revisions. But it writes the progress last, so
 * the progress found is then an earlier one.
 */
async function deleteIfBehind(
  streams: Streams,
  { records }: Channels,
  found: StreamFacts,
  { created, revision }: LastWrite,
): Promise<boolean> {
  if (found.created !== created || revision === 0) return false
  const stream = `KV_${records}`
  const progress = await streams.getMessage(stream, { last_by_subj: `$KV.${records}.${progressKey}` })
  return (progress?.seq ?? 0) < revision && streams.delete(stream)
}

async function readAll<Kept>(bucket: Bucket, read: (text: string, key: string) => Kept): Promise<Map<string, Kept>> {
  const found = new Map<string, Kept>()
  for await (const entry of bucket.entries()) {
    found.set(entry.key, read(entry.string(), entry.key))
    if (found.size % readAtOnce === 0) await yieldToEventLoop()
  }
  return found
}
