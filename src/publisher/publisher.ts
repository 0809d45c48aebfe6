import type { NatsConnection } from '@nats-io/transport-node'
import type { Batch, Channels, Progress } from '../distribution/channels.ts'
import type { RecordKey } from '../distribution/records.ts'
import { digestOf, type Signer, seal } from '../distribution/signature.ts'
import type { Uuid } from '../kernel/ids.ts'
import type { Log } from '../kernel/log.ts'
import { type Stop, type Timing, wait } from '../kernel/timing.ts'
import type { OutboxRow } from '../operations/outbox.ts'
import { isPlacementKey } from '../operations/placement.ts'
import type { BucketServer } from './bucket/bucket_server.ts'
import { createBucketWriter } from './bucket/bucket_writer.ts'
import { createLiveRecords, type LiveRecords } from './bucket/live_records.ts'
import { type NatsSink, openNatsSink } from './bucket/nats_sink.ts'
import type { LockedDatabase, PublisherDatabase } from './database.ts'
import type { Suspicions } from './nodes/suspicions.ts'
import { createReconciler } from './reconciler.ts'
import { type CompileContext, notingUnavailable } from './records/changed.ts'
import type { Compiled } from './records/compile.ts'
import { createPolicyVersions } from './records/policy_versions.ts'
import { CannotSign } from './signing_keys.ts'
import { createWake } from './wake.ts'
import { noAccount, openFirstWave } from './waves/hold.ts'
import { viewOfWave, watchLost } from './waves/view.ts'
import { openWithheld } from './withheld.ts'

export type PublisherMetrics = {
  published: (records: number) => void
  behind: (generations: number) => void
  sent: (generation: number) => void
  active: (isActive: boolean) => void
  /** Records that nodes do not get: differences that may be a fault of the database, and records that cannot be sent. */
  heldBack: (count: number, reason: string | undefined) => void
  /** Why this process cannot publish; undefined if it can. */
  stalled: (reason: string | undefined) => void
}
type Parts = {
  database: PublisherDatabase
  channels: (wave: number) => Channels
  nats: Pick<NatsConnection, 'publish' | 'subscribe' | 'info'>
  buckets: BucketServer
  isConnected: () => boolean
  timing: Timing
  log: Log
  metrics: PublisherMetrics
  context: CompileContext
  suspicions: (wave: number) => Suspicions
}

const retryEveryMs = 1_000
/**
 * Polling interval for some seconds after a change: a change may wait for an earlier transaction, which ends without a
 * wake-up.
 */
const lookEveryMs = 250
const busyForMs = 5_000
/** Fallback for missed wake-ups, after changes by the command line or a process that ends before it wakes others. */
const lookWhenIdleMs = 3_000
const bucketLookEveryMs = 2_000
const writtenEveryMs = 2
const rowsAtOnce = 5_000
/** How often nodes learn that everything up to a generation was for other cells. */
const tellOfOthersEveryMs = 1_000
/** Cache of the last published versions of large policies, so that changes are published as deltas. */
const maxVersionBytes = 128 * 1024 * 1024
/** Limits how many records plain messages may be ahead of a bucket without a leader, because these stay in memory. */
const maxWaiting = 50_000
/** A restart or an election of NATS takes a second or two. */
const giveUpWithoutNatsMs = 5_000

const newerInBucket =
  "publisher: the bucket has a newer version, which stays. Another process publishes, or the database is from a backup and 'gatehouse after-restore' was not run"

/**
 * Sends the outbox to the nodes of a cell, in order. Every process runs a publisher for each cell; the one that holds
 * the lock works, and the others stand by. Processes share the cells (share.ts). Ends when `signal` aborts.
 */
export async function runPublisher(parts: Parts, signal: AbortSignal): Promise<void> {
  const { database, timing, log, metrics, isConnected } = parts
  const canSign = watchSigningKey(parts)
  while (!signal.aborted) {
    // Without NATS, this process would only keep the lock from one that has it.
    if (!isConnected()) {
      await wait(timing, retryEveryMs, signal)
      continue
    }
    const link = watchLink(parts)
    try {
      if (await canSign()) {
        const until = { leave: signal, giveUp: link.isGone }
        await database.holdingLock(until, async (locked, end) => {
          metrics.active(true)
          log.info({}, 'publisher: active')
          await publishToWaves(parts, locked, AbortSignal.any([signal, end, link.isGone]))
          if (end.aborted) log.info({}, 'publisher: leaving the cell to a process that publishes in fewer')
        })
        // The publisher waits for its turn there.
        continue
      }
    } catch (error) {
      if (link.isGone.aborted) log.warn({}, 'publisher: NATS is out of reach; leaving the work to another process')
      // The next look at the key logs the reason.
      else if (!(error instanceof CannotSign) && !signal.aborted)
        log.error({ err: error }, 'publisher: failed; retrying')
    } finally {
      link.stop()
      metrics.active(false)
      metrics.behind(0)
      metrics.heldBack(0, undefined)
    }
    await wait(timing, retryEveryMs, signal)
  }
}

/** A process that cannot sign leaves the lock to another one. Logs each reason once. */
function watchSigningKey({ database, log, metrics }: Pick<Parts, 'database' | 'log' | 'metrics'>) {
  let logged: string | undefined
  return async (): Promise<boolean> => {
    const fault = await database.signer().then(
      () => undefined,
      (error: unknown) => {
        if (error instanceof CannotSign) return error
        throw error
      },
    )
    metrics.stalled(fault?.message)
    if (fault && fault.message !== logged) log[fault.level]({}, `publisher: ${fault.message}`)
    logged = fault?.message
    return fault === undefined
  }
}

/** `isGone` aborts after NATS has been unreachable for some seconds. */
function watchLink({ isConnected, timing }: Pick<Parts, 'isConnected' | 'timing'>) {
  const gone = new AbortController()
  let connectedAt = timing.elapsed()
  const stop = timing.every(250, () => {
    if (isConnected()) connectedAt = timing.elapsed()
    else if (timing.elapsed() - connectedAt >= giveUpWithoutNatsMs) gone.abort(new Error('NATS is out of reach'))
  })
  return { isGone: gone.signal, stop }
}

/** One process publishes to all waves of a cell, so that its knowledge of a rollout applies to each of them. */
async function publishToWaves(parts: Parts, locked: LockedDatabase, signal: AbortSignal): Promise<void> {
  const { database, metrics, log } = parts
  const waves = await locked.waves()
  const partsOf = (wave: number) => ({
    ...parts,
    wave,
    waves,
    channels: parts.channels(wave),
    suspicions: parts.suspicions(wave),
  })
  if (waves === 1) return publish({ ...partsOf(0), wave: undefined }, locked, signal)
  await locked.beginRollouts()
  const failed = new AbortController()
  const publishing = Array.from({ length: waves }, async (_, wave) => {
    const later = wave > 0 && { metrics: ofLaterWave(metrics), log: logOfWave(log, wave) }
    const ofWave = { ...partsOf(wave), database: database.ofWave(wave), ...later }
    try {
      await publish(ofWave, locked.ofWave(wave), AbortSignal.any([signal, failed.signal]))
    } finally {
      failed.abort()
    }
  })
  await Promise.allSettled(publishing)
  await Promise.all(publishing)
}

/** The progress of a cell is that of its first wave. */
const ofLaterWave = ({ published }: PublisherMetrics): PublisherMetrics => ({
  published,
  behind() {},
  sent() {},
  active() {},
  heldBack() {},
  stalled() {},
})

const logOfWave = (log: Log, wave: number): Log => ({
  info: (fields, message) => log.info({ ...fields, wave }, message),
  warn: (fields, message) => log.warn({ ...fields, wave }, message),
  error: (fields, message) => log.error({ ...fields, wave }, message),
})

type WaveParts = Omit<Parts, 'channels' | 'suspicions'> & {
  waves: number
  channels: Channels
  suspicions: Suspicions
  /** Undefined in a cell with a single wave. */
  wave: number | undefined
}

async function openSink({ database, channels, nats, buckets, log }: WaveParts, locked: LockedDatabase) {
  const { cursor, created, revision } = await locked.state()
  const onNewer = (key: string) => log.warn({ key }, newerInBucket)
  const fence = { loadTrustedKeys: database.trustedKeys, confirmLock: locked.state, onNewer }
  const natsSink = await openNatsSink(nats, buckets, channels, { created, revision }, fence)
  await locked.noteBucket(natsSink.bucketCreated)
  return { cursor, natsSink }
}

async function publish(parts: WaveParts, locked: LockedDatabase, signal: AbortSignal): Promise<void> {
  const { database: tables, nats, timing, log, metrics, context, suspicions, wave, waves } = parts
  const { cursor, natsSink } = await openSink(parts, locked)
  const bucketWriter = createBucketWriter(natsSink, timing, locked.moveCursor)
  const wake = createWake(nats, timing)
  const over = new AbortController()
  const { current: findPolicyVersion, fromRules } = createPolicyVersions(maxVersionBytes)
  const withheld = await openWithheld(locked, metrics.heldBack)
  const live = createLiveRecords()
  const until = AbortSignal.any([signal, over.signal])
  /** A cell with a single wave uses the tables directly. */
  const ofWave = { database: tables, wave: wave ?? 0, timing, signal: until }
  const database = wave === undefined ? tables : viewOfWave(ofWave)
  const compared = { context: { ...context, findPolicyVersion: fromRules }, onCompared: withheld.noteComparison, live }
  const reconciler = createReconciler({ database, natsSink, timing, log, ...compared }, until)
  const stopLooking = watchBucketAndWaves({ timing, natsSink, locked, waves, fail: bucketWriter.fail })
  let sent = cursor
  /** How far the outbox has been read. Exceeds `sent` by changes for other cells. */
  let read = cursor
  let sentAt = timing.elapsed()
  let busyAt = sentAt
  let lastExpiry = timing.now()
  const lost = watchLost(tables, wave)
  const isWritten = () => waitUntilWritten(bucketWriter, timing, until)
  const first = wave === 0 ? await openFirstWave({ locked, tables, natsSink, cursor, isWritten, timing }) : undefined
  /** The first of several waves assigns the changes that it is about to send to rollouts. */
  const databaseFor = (batch: Rows & { after: number }): PublisherDatabase =>
    first ? viewOfWave({ ...ofWave, hold: (...found) => first.hold(batch, ...found) }) : database
  try {
    while (!signal.aborted) {
      bucketWriter.check()
      const signer = await locked.signer()
      if (reconciler.isCompleteAt(signer.keyId, read)) first?.sent.complete(live.generations)
      const now = timing.now()
      if (!wave) await database.noteExpiredRules(lastExpiry, now)
      lastExpiry = now
      const batch = await nextBatch(database, locked, read)
      metrics.behind(batch ? batch.settled - read : 0)
      for (const key of suspicions.take()) reconciler.suspect(key)
      reconciler.reconcileIfDue(signer.keyId, !batch && bucketWriter.isIdle())
      const { rows, settled } = batch ?? { rows: [], settled: read }
      const isDue =
        reconciler.needsAnnouncement(signer.keyId, settled) ||
        (await lost.isOver()) ||
        (settled > sent && timing.elapsed() - sentAt >= tellOfOthersEveryMs)
      if (batch || isDue || reconciler.isBusy()) busyAt = timing.elapsed()
      if (!batch && !isDue) {
        const isBusy = wave !== undefined || timing.elapsed() - busyAt < busyForMs
        if (await wake.wait(isBusy ? lookEveryMs : lookWhenIdleMs, signal)) busyAt = timing.elapsed()
        continue
      }
      const found = { rows, after: read, settled }
      const compiling = { ...context, maxMessageBytes: natsSink.maxMessageBytes(), findPolicyVersion }
      const { compiled, unavailable } = await compileRows(databaseFor(found), found, now, compiling)
      await withheld.note(rows, unavailable)
      read = settled
      if (compiled.length === 0 && unavailable.size === 0 && !isDue) continue
      await natsSink.putBlobs(compiled.flatMap(({ blobs }) => blobs))
      noteSent([live.sent, first?.sent.note], compiled, rows)
      const complete = await lost.orComplete(reconciler.completeAt(signer.keyId, settled))
      const progress = { after: sent, settled, bucket: natsSink.bucketCreated, ...complete }
      const sealed = sealBatch(compiled, rows, progress, signer)
      natsSink.announce(sealed)
      const keys = compiled.map(({ key }) => key)
      bucketWriter.add(sealed, keys, settled)
      metrics.published(compiled.length)
      metrics.sent(settled)
      sent = settled
      sentAt = timing.elapsed()
      while (bucketWriter.recordsWaiting() > maxWaiting && !signal.aborted) await wait(timing, 50, signal)
    }
    // The next active publisher sends the rest again from the cursor.
    await Promise.race([bucketWriter.finish(), wait(timing, 2_000, over.signal)])
  } finally {
    over.abort()
    stopLooking()
    bucketWriter.stop()
    wake.stop()
  }
}

/** `finish` would retry for a minute after the bucket was lost; `check` throws immediately. */
async function waitUntilWritten(
  writer: ReturnType<typeof createBucketWriter>,
  timing: Timing,
  until: AbortSignal,
): Promise<void> {
  for (writer.check(); !writer.isIdle(); writer.check()) {
    await wait(timing, writtenEveryMs, until)
    until.throwIfAborted()
  }
}

type Looked = {
  timing: Timing
  natsSink: NatsSink
  locked: LockedDatabase
  waves: number
  fail: (error: Error) => void
}

/** NATS may lose its data without dropping connections. Writes to the lost buckets would then fail. */
function watchBucketAndWaves({ timing, natsSink, locked, waves, fail }: Looked): Stop {
  return timing.every(bucketLookEveryMs, async () => {
    if (!(await natsSink.isIntact())) fail(new Error('NATS has lost the contents of the buckets'))
    // Without an answer, the session has ended or the next look succeeds.
    const found = await locked.waves().catch(() => waves)
    if (found !== waves) fail(new Error('the cell has other waves now'))
  })
}

type Rows = { rows: OutboxRow[]; settled: number }

/** Keeps only the latest change of each key. Undefined if there is none. */
async function nextBatch(
  database: PublisherDatabase,
  locked: LockedDatabase,
  after: number,
): Promise<Rows | undefined> {
  const { rows, settled } = await locked.outboxAfter(after, rowsAtOnce)
  const last = rows.at(-1)
  const reached = rows.length >= rowsAtOnce && last ? last.generation : settled
  if (reached <= after) return undefined
  const latest = new Map<RecordKey, OutboxRow>()
  for (const row of rows) {
    const keys = isPlacementKey(row.key) ? await database.recordsOf(row.account_id, after) : [row.key]
    for (const key of keys) {
      // Rows from a comparison have no account, but the account may have deleted the resource just before.
      const account_id = row.account_id === noAccount ? (latest.get(key)?.account_id ?? noAccount) : row.account_id
      latest.set(key, { ...row, key, account_id })
    }
  }
  return { rows: [...latest.values()], settled: reached }
}

type Moves = Awaited<ReturnType<PublisherDatabase['moves']>>

/**
 * Compiles the changes as nodes of the cell should get them. If an account moves meanwhile, its records would be
 * compiled as for another cell, so they are compiled again until no move happened. Moves up to `settled` happened
 * before.
 */
async function compileRows(
  database: PublisherDatabase,
  { rows, after, settled }: Rows & { after: number },
  now: number,
  context: CompileContext,
): Promise<{ compiled: Compiled[]; unavailable: Map<RecordKey, string> }> {
  const changed = rows.map(({ key, account_id }) => ({ key, accountId: account_id }))
  for (let before: Moves | undefined; ; ) {
    const unavailable = new Map<RecordKey, string>()
    const compiled = await database.compile(changed, now, notingUnavailable(context, unavailable))
    const moves = await database.moves(after)
    const isStill = [...moves].every(([account, moved]) => moved <= settled || before?.get(account) === moved)
    if (isStill) return { compiled: withoutOthers(compiled, rows, moves), unavailable }
    before = moves
  }
}

/**
 * Drops changes that concern only other cells, so that nodes here do not even see the ids of their deleted resources. If
 * an account was placed elsewhere since the nodes' generation, nodes may still have its records, which are removed. The
 * bucket cannot show this: NATS may have lost it, or a comparison may have enqueued the removal without sending it yet.
 */
function withoutOthers(compiled: readonly Compiled[], rows: readonly OutboxRow[], moves: Moves): Compiled[] {
  const owners = new Map(rows.map(({ key, account_id }) => [key, account_id]))
  return compiled.filter(({ key, isElsewhere }) => !isElsewhere || moves.has(owners.get(key) as Uuid))
}

type NoteSent = LiveRecords['sent'] | undefined
function noteSent(notes: readonly NoteSent[], compiled: readonly Compiled[], rows: readonly OutboxRow[]): void {
  const generations = new Map(rows.map(({ key, generation }) => [key, generation]))
  for (const { key, value } of compiled)
    for (const note of notes) note?.(key, value === null ? undefined : generations.get(key))
}

function sealBatch(compiled: Compiled[], rows: readonly OutboxRow[], progress: Progress, signer: Signer): Batch {
  const generations = new Map(rows.map(({ key, generation }) => [key, generation]))
  const records = compiled.map(({ key, value, rules, expiring }) =>
    seal(
      { key, generation: generations.get(key), value, ...(rules && { rules }), ...(expiring && { expiring }) },
      signer,
    ),
  )
  return { progress: seal({ ...progress, digest: digestOf(records) }, signer), records }
}
