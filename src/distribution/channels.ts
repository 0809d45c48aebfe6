import { setTimeout } from 'node:timers/promises'
import { connect, type NatsConnection, type NodeConnectionOptions } from '@nats-io/transport-node'

/** The names under which both sides meet. An agent may read the first four and write only its own report. */
export const recordBucket = 'gatehouse'
export const blobBucket = 'gatehouse_blobs'
/** The same batches that go into the bucket, as plain messages: they do not wait for a leader. */
export const batchSubject = 'gatehouse.batches'
/** Under this key in the bucket: up to which generation everything is in it. Written after the records. */
export const progressKey = 'progress'
export const reportSubject = (node: string): string => `gatehouse.reports.${node}`
export const allReportsSubject = 'gatehouse.reports.*'
/** Said by whoever committed a change, so that the publisher need not wait for its next look. */
export const wakeSubject = 'gatehouse.wake'

export const inboxOf = (node: string): string => `_INBOX_${node}`

/** Says that everything since the generation `after` up to `settled` has been sent. Sealed like a record. */
export type Progress = {
  after: number
  settled: number
  /** Of the records that come with it, so that none can be taken out on the way. */
  digest?: string
  /**
   * Names the bucket, by when it was made, that holds everything up to `settled`, signed with this key. Missing while a
   * bucket is filled again: a node must not take what it finds there for all there is.
   */
  complete?: string
}
export type Batch = { progress: string; records: string[] }

export type Report = {
  node: string
  version: string
  startedAt: string
  /** Every record up to this generation is in force on the node. */
  applied: number
  records: number
  /** What the node refused to apply, and why; the last ones. */
  refusals: { key: string; generation: number | null; reason: string; at: string }[]
  /** How often an address was refused, or would have been, since the last report, for the control plane to add up. */
  hits: EdgeHit[]
}

export type EdgeHit = {
  /** The account's restriction that decided; null when it was the edge's or route's own policies. */
  restriction: string | null
  /** The TCP edge or the route. Nodes of before did not tell. */
  target?: string
  source: string
  outcome: 'refused' | 'warned'
  count: number
  lastAt: string
}

export type NatsSettings = {
  servers: string[]
  name: string
  caFile?: string
  user?: string
  password?: string
  /** Where answers come to; NATS lets a node listen to its own only. */
  inboxPrefix?: string
  /** Ends the waiting for a NATS that is not there yet. */
  signal: AbortSignal
  /** Called with the reason when NATS cannot be joined; again only when the reason changes. */
  onFailure?: (reason: string) => void
}

const retryMs = 250

/**
 * Never gives up, neither the first time nor later: an edge serves on without NATS, and so does the API. The first time
 * is a loop of our own, because the library's cannot be told to end, and would keep a process alive that has to.
 */
export async function connectNats({
  servers,
  name,
  caFile,
  user,
  password,
  inboxPrefix,
  signal,
  onFailure,
}: NatsSettings): Promise<NatsConnection> {
  // With the option `tls` the library refuses a server without TLS before it sends the password, also when it reconnects
  // and for servers that it learns of later. Without it, it takes the scheme for a hint and joins in plain text.
  const requiresTls = caFile || servers.some((server) => server.startsWith('tls://'))
  const options: NodeConnectionOptions = {
    servers,
    name,
    maxReconnectAttempts: -1,
    reconnectTimeWait: retryMs,
    pingInterval: 5_000,
    maxPingOut: 2,
    ...(requiresTls && { tls: caFile ? { caFile } : {} }),
    ...(user && { user, pass: password }),
    ...(inboxPrefix && { inboxPrefix }),
  }
  let lastReason: string | undefined
  for (;;) {
    signal.throwIfAborted()
    try {
      return await connect(options)
    } catch (error) {
      const { message } = error as Error
      const reason = /does not support 'tls'/.test(message) ? 'the server has no TLS, and tls:// requires it' : message
      if (reason !== lastReason) onFailure?.(reason)
      lastReason = reason
      await setTimeout(retryMs, undefined, { signal })
    }
  }
}
