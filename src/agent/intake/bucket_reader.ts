import type { NextMsgRequest, SeqMsgRequest, StoredMsg } from '@nats-io/jetstream'
import { ClosedConnectionError } from '@nats-io/transport-node'
import type { BucketApi } from '../../distribution/bucket_api.ts'
import { spread, type Timing, wait } from '../../kernel/timing.ts'

/** `pending`: 0 if this was the last entry of the bucket, otherwise about how many follow. */
export type ReadEntry = { key: string; revision: number; text: string; pending: number }

const batchSize = 1_000
/** Changes arrive as plain messages first. The bucket supplies what those missed. */
const pollMs = 500
/** Used while nothing seems to be missing. The most recent message may be lost, and no later one reveals that. */
const longestPauseMs = 5_000
/** Between two messages of a batch, and until the first one, for which the library has a limit of its own. */
const longestSilenceMs = 10_000
const maxFailures = 10

/**
 * Yields the entries of a bucket in revision order, from a given one on, until the signal aborts. It queries the bucket
 * and creates nothing in NATS: a watch would need a consumer, and a node that may create consumers could make them
 * deliver anywhere, such as to other nodes in the name of the control plane.
 *
 * It polls often until the node is up to date and when a plain message was missed, otherwise seldom.
 *
 * Any replica may answer a batch, and it may lag. The read is complete only if the leader confirms the last revision and
 * a replica that had it answered every read up to it.
 */
export async function* readBucket(
  { streams, direct }: Pick<BucketApi, 'streams' | 'direct'>,
  bucket: string,
  from: number,
  timing: Timing,
  signal: AbortSignal,
  isUpToDate = () => false,
): AsyncGenerator<ReadEntry> {
  let next = from
  let held: ReadEntry | undefined
  let failures = 0
  while (!signal.aborted) {
    try {
      const found = await nextFromLeader(streams, bucket, next)
      if (!found) {
        if (held) yield { ...held, pending: 0 }
        held = undefined
        await pause(timing, isUpToDate, signal)
        continue
      }
      for (let batch = [found]; batch.length > 0; batch = await readBatch(direct, bucket, next, timing, signal)) {
        for (const entry of batch) {
          // Held until the next one arrives: only then is it known whether this was the last.
          if (held) yield { ...held, pending: entry.pending + 1 }
          held = entry
          next = entry.revision + 1
        }
      }
      failures = 0
    } catch (error) {
      // NATS may be unreachable or electing a leader. Retry, and report it if that does not help.
      if (error instanceof ClosedConnectionError || ++failures >= maxFailures) throw error
      await wait(timing, pollMs, signal)
    }
  }
}

/** A thousand nodes that poll twice a second would cause most of the load of an idle NATS. */
async function pause(timing: Timing, isUpToDate: () => boolean, signal: AbortSignal): Promise<void> {
  const end = timing.elapsed() + spread(timing, longestPauseMs)
  do await wait(timing, pollMs, signal)
  while (isUpToDate() && timing.elapsed() < end && !signal.aborted)
}

async function nextFromLeader(
  streams: BucketApi['streams'],
  bucket: string,
  seq: number,
): Promise<ReadEntry | undefined> {
  // The server accepts both fields together; the library's type allows only one.
  const query: SeqMsgRequest & NextMsgRequest = { seq, next_by_subj: `$KV.${bucket}.>` }
  const message = await streams.getMessage(`KV_${bucket}`, query)
  return message ? entryOf(message, bucket, 0) : undefined
}

/**
 * Reads up to one batch. It fails if a message was lost or the batch stops half-way, because the library never ends a
 * batch whose connection is closed.
 */
async function readBatch(
  direct: BucketApi['direct'],
  bucket: string,
  seq: number,
  timing: Timing,
  signal: AbortSignal,
): Promise<ReadEntry[]> {
  const entries: ReadEntry[] = []
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const giveUp = () => reject(new Error('NATS stopped in the middle of a batch'))
  let stopWaiting = timing.after(longestSilenceMs, giveUp)
  const end = () => reject(signal.reason)
  signal.addEventListener('abort', end)
  let last = 0
  const callback = (done: { err?: Error } | null, message: StoredMsg) => {
    stopWaiting()
    stopWaiting = timing.after(longestSilenceMs, giveUp)
    if (!done) {
      if (!isDirect(message) || message.lastSequence !== last) return reject(new Error('a message of a batch was lost'))
      last = message.seq
      entries.push(entryOf(message, bucket, message.pending))
    } else if (done.err && (done.err as { code?: number }).code !== 404) reject(done.err)
    else resolve()
  }
  // `getBatch` throws synchronously if the connection has just closed; `Promise.try` turns that into a rejection too.
  const batch = Promise.try(() => direct.getBatch(`KV_${bucket}`, { seq, batch: batchSize, callback }))
  batch.catch(reject)
  try {
    await promise
    return entries
  } finally {
    stopWaiting()
    signal.removeEventListener('abort', end)
    void batch.then((iterator) => iterator.stop()).catch(() => {})
  }
}

/** The callback's type does not show that these messages come from the direct API. */
const isDirect = (message: StoredMsg): message is StoredMsg & { lastSequence: number; pending: number } =>
  'lastSequence' in message && 'pending' in message

const entryOf = (message: StoredMsg, bucket: string, pending: number): ReadEntry => ({
  key: message.subject.slice(`$KV.${bucket}.`.length),
  revision: message.seq,
  text: message.string(),
  pending,
})
