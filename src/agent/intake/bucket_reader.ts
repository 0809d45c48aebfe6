import type { NextMsgRequest, SeqMsgRequest, StoredMsg } from '@nats-io/jetstream'
import { ClosedConnectionError } from '@nats-io/transport-node'
import type { BucketApi } from '../../distribution/bucket_api.ts'
import { spread, type Timing, wait } from '../../kernel/timing.ts'

/** `pending`: 0 when the bucket had nothing more after this one; otherwise about how many more. */
export type ReadEntry = { key: string; revision: number; text: string; pending: number }

const batchSize = 1_000
/** Changes come as plain messages first; the bucket is for what those have missed. */
const pollMs = 500
/** While nothing seems to be missing: the last message of all may have been lost, which no later one tells. */
const longestPauseMs = 5_000
/** Between two messages of one batch. Also until the first, for which the library has a limit of its own. */
const longestSilenceMs = 10_000
const maxFailures = 10

/**
 * The entries of a bucket in the order of their revisions, from one on, for good, until the signal. It asks for them and
 * leaves nothing behind in NATS. A watch would need a consumer, and a node that may create consumers may have them deliver
 * anywhere, such as to other nodes in the name of the control plane.
 *
 * It looks often until the node is up to date, and when a plain message was missed; otherwise seldom.
 *
 * Any replica answers batches, and one may be behind. So the end is the end only when the leader says so, and every
 * revision up to it was read from a replica that had it.
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
          // Held until the one after it is there: of the last one it is not known yet whether there are more.
          if (held) yield { ...held, pending: entry.pending + 1 }
          held = entry
          next = entry.revision + 1
        }
      }
      failures = 0
    } catch (error) {
      // NATS is unreachable or electing a leader. Retry, and report it if that does not help.
      if (error instanceof ClosedConnectionError || ++failures >= maxFailures) throw error
      await wait(timing, pollMs, signal)
    }
  }
}

/** A thousand nodes that ask twice a second are most of what an idle NATS does. */
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
  // The server takes both fields; the library's type knows them only one by one.
  const query: SeqMsgRequest & NextMsgRequest = { seq, next_by_subj: `$KV.${bucket}.>` }
  const message = await streams.getMessage(`KV_${bucket}`, query)
  return message ? entryOf(message, bucket, 0) : undefined
}

/**
 * As many as there are, up to the size of a batch. A message that was lost on the way is an error, and so is a batch that
 * stops half-way: the library never ends a batch whose connection is closed.
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
  // It throws at once when the connection has just closed: then, too, nothing may be left to fail later.
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

/** The type of the callback does not say that these come from the direct API. */
const isDirect = (message: StoredMsg): message is StoredMsg & { lastSequence: number; pending: number } =>
  'lastSequence' in message && 'pending' in message

const entryOf = (message: StoredMsg, bucket: string, pending: number): ReadEntry => ({
  key: message.subject.slice(`$KV.${bucket}.`.length),
  revision: message.seq,
  text: message.string(),
  pending,
})
