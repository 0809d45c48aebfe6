import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import { Kvm } from '@nats-io/kv'
import type { NatsConnection } from '@nats-io/transport-node'

/** What the publisher does with a bucket. */
export type Bucket = {
  get: (key: string) => Promise<{ revision: number; string: () => string } | null>
  put: (key: string, value: string | Uint8Array, options?: { previousSeq: number }) => Promise<number>
  keys: () => Promise<AsyncIterable<string>>
  status: () => Promise<{ values: number }>
  /** Everything in it, and then what is put: `delta` is how much was left of the first. */
  watch: () => Promise<AsyncIterable<{ key: string; delta?: number; string: () => string }>>
}
export type StreamFacts = { created: string; state: { last_seq: number } }
/** What it does with the stream behind one. */
export type Streams = {
  info: (stream: string) => Promise<StreamFacts>
  purge: (stream: string, options: { filter: string }) => Promise<unknown>
  delete: (stream: string) => Promise<boolean>
  /** As the leader has it. */
  getMessage: (stream: string, query: { last_by_subj: string }) => Promise<{ seq: number; data: Uint8Array } | null>
}

/** The part of NATS that keeps buckets. Passed in, so that a simulation can be it. */
export type BucketServer = {
  /** Opens the bucket, or makes it. */
  open: (name: string) => Promise<Bucket>
  streams: () => Promise<Streams>
}

/** The real one. */
export function bucketServer(nats: NatsConnection, replicas: number): BucketServer {
  const kvm = new Kvm(jetstream(nats))
  return {
    open: (name) => kvm.create(name, { history: 1, replicas, timeout: 10_000 }),
    streams: async () => (await jetstreamManager(nats)).streams,
  }
}
