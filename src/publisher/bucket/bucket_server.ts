import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import { Kvm } from '@nats-io/kv'
import type { NatsConnection } from '@nats-io/transport-node'

/**
 * Limits the entries in flight, which are parsed as they arrive. Without a limit, the server sends all at once, and Node
 * reads two megabytes from a connection before it serves another one.
 */
const entriesAtOnce = 400

/** The operations that the publisher needs on a bucket. */
export type Bucket = {
  get: (key: string) => Promise<{ revision: number; string: () => string } | null>
  put: (key: string, value: string | Uint8Array, options?: { previousSeq: number }) => Promise<number>
  keys: () => Promise<AsyncIterable<string>>
  /** All entries. Requests more only once most of the previous ones were consumed. */
  entries: () => AsyncIterable<{ key: string; string: () => string }>
}
export type StreamFacts = { created: string; state: { last_seq: number } }
/** The operations that the publisher needs on the streams of buckets. */
export type Streams = {
  info: (stream: string) => Promise<StreamFacts>
  purge: (stream: string, options: { filter: string }) => Promise<unknown>
  delete: (stream: string) => Promise<boolean>
  /** Asks the leader. */
  getMessage: (stream: string, query: { last_by_subj: string }) => Promise<{ seq: number; data: Uint8Array } | null>
}

/** The bucket part of NATS, passed in so that tests can simulate it. */
export type BucketServer = {
  /** Opens the bucket, and creates it if necessary. */
  open: (name: string) => Promise<Bucket>
  streams: () => Promise<Streams>
}

/** Uses a real NATS server. */
export function bucketServer(nats: NatsConnection, replicas: number): BucketServer {
  const kvm = new Kvm(jetstream(nats))
  return {
    async open(name) {
      const kv = await kvm.create(name, { history: 1, replicas, timeout: 10_000 })
      return {
        get: (key) => kv.get(key),
        put: (key, value, options) => kv.put(key, value, options),
        keys: () => kv.keys(),
        entries: () => entriesIn(nats, name),
      }
    },
    streams: async () => (await jetstreamManager(nats)).streams,
  }
}

async function* entriesIn(nats: NatsConnection, bucket: string): ReturnType<Bucket['entries']> {
  const consumer = await jetstream(nats).consumers.get(`KV_${bucket}`, {})
  try {
    if ((await consumer.info(true)).num_pending === 0) return
    const messages = await consumer.consume({
      max_messages: entriesAtOnce,
      threshold_messages: entriesAtOnce / 2,
      abort_on_missing_resource: true,
    })
    for await (const message of messages) {
      yield { key: message.subject.slice(`$KV.${bucket}.`.length), string: () => message.string() }
      if (message.info.pending === 0) return
    }
    throw new Error(`NATS: the connection ended while the bucket ${bucket} was read`)
  } finally {
    await consumer.delete().catch(() => false)
  }
}
