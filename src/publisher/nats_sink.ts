import { JetStreamApiCodes, JetStreamApiError, jetstream, jetstreamManager } from '@nats-io/jetstream'
import { type KV, Kvm } from '@nats-io/kv'
import type { NatsConnection } from '@nats-io/transport-node'
import { type Batch, batchSubject, blobBucket, progressKey, recordBucket } from '../distribution/channels.ts'
import { blobName } from '../distribution/pieces.ts'
import { inParallel } from '../kernel/in_parallel.ts'

/** Below the limit of a NATS message with room for the envelope. */
const largestMessage = 900_000

/** The two channels: a plain message that arrives in a millisecond, and the bucket that persists. */
export type NatsSink = {
  /** When the bucket was created: a different time means that its records are gone. */
  readonly bucketCreated: string
  /** False when it was too large for one message: then it goes through the bucket alone. */
  announce: (batch: Batch) => boolean
  putBlobs: (pieces: readonly Buffer[]) => Promise<void>
  /** `kept` is what an attempt before had put already, and grows: under load, one of thousands may time out each time. */
  keep: (batch: Batch, keys: readonly string[], kept?: Set<string>) => Promise<void>
  /** Everything in the bucket, by key. `read` says what is kept of each: all of a million records would not fit into memory. */
  contents: <Kept>(read: (text: string) => Kept) => Promise<Map<string, Kept>>
  /** Asks which pieces are there, instead of remembering what once was. */
  refreshBlobs: () => Promise<void>
  /** Said when every policy was put. Takes away the pieces that were not among them this time nor the time before. */
  sweepBlobs: () => Promise<number>
  /** False when an opened bucket is gone or was replaced: then everything must be sent again. */
  isIntact: () => Promise<boolean>
}

export async function openNatsSink(nats: NatsConnection, replicas: number): Promise<NatsSink> {
  const js = jetstream(nats)
  const kvm = new Kvm(js)
  const options = { history: 1, replicas, timeout: 10_000 }
  const records = await kvm.create(recordBucket, options)
  const blobs = await kvm.create(blobBucket, options)
  const streams = (await jetstreamManager(nats)).streams
  const madeAt = async () =>
    Promise.all([recordBucket, blobBucket].map(async (name) => (await streams.info(`KV_${name}`)).created))
  const made = await madeAt()
  const known = new Set<string>()
  let used = new Set<string>()
  let usedBefore: Set<string> | undefined
  /** A piece that is needed again during its deletion must be put after the deletion. */
  const leaving = new Map<string, Promise<unknown>>()

  function remove(name: string): Promise<unknown> {
    known.delete(name)
    const gone = streams.purge(`KV_${blobBucket}`, { filter: `$KV.${blobBucket}.${name}` })
    leaving.set(name, gone)
    return gone.finally(() => leaving.delete(name))
  }

  return {
    bucketCreated: made[0] as string,
    announce(batch) {
      const text = JSON.stringify(batch)
      if (text.length > largestMessage) return false
      nats.publish(batchSubject, text)
      return true
    },
    async putBlobs(pieces) {
      const named = pieces.map((piece) => ({ piece, name: blobName(piece) }))
      for (const { name } of named) used.add(name)
      const missing = named.filter(({ name }) => !known.has(name))
      await inParallel(missing, 32, async ({ piece, name }) => {
        await leaving.get(name)
        if ((await blobs.get(name)) === null) await blobs.put(name, piece)
        known.add(name)
      })
      // Only a memory of what need not be asked again.
      if (known.size > 100_000) known.clear()
    },
    async keep(batch, keys, kept = new Set()) {
      const all = batch.records.map((record, index) => [keys[index] as string, record] as const)
      const missing = all.filter(([key]) => !kept.has(key))
      await inParallel(missing, 64, async ([key, record]) => {
        await records.put(key, record)
        kept.add(key)
      })
      await records.put(progressKey, batch.progress)
    },
    contents: (read) => readAll(records, read),
    async refreshBlobs() {
      const names = await Array.fromAsync(await blobs.keys())
      known.clear()
      for (const name of names) known.add(name)
    },
    async sweepBlobs() {
      const unused = usedBefore ? [...known].filter((name) => !used.has(name) && !usedBefore?.has(name)) : []
      usedBefore = used
      used = new Set()
      await inParallel(unused, 32, async (name) => {
        if (!used.has(name)) await remove(name)
      })
      return unused.length
    },
    async isIntact() {
      try {
        return (await madeAt()).every((at, index) => at === made[index])
      } catch (error) {
        // Whoever does not answer, because of an election or the network, has not lost anything by that.
        return !(error instanceof JetStreamApiError && error.code === JetStreamApiCodes.StreamNotFound)
      }
    },
  }
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
