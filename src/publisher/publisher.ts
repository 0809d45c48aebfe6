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
  /** What nodes do not get: what might be a fault of the database, and records that cannot be sent. */
  heldBack: (count: number, reason: string | undefined) => void
  /** Why this process cannot publish anything, or undefined when it can. */
  stalled: (reason: string | undefined) => void
}
type Parts = {
  database: PublisherDatabase
  channels: (wave: number) => Channels
  nats: Pick<NatsConnection, 'publish' | 'subscribe' | 'info'>
  buckets: BucketServer
  /** Whether NATS is reachable now. */
  isConnected: () => boolean
  timing: Timing
  log: Log
  metrics: PublisherMetrics
  context: CompileContext
  /** The same for a wave each time. */
  suspicions: (wave: number) => Suspicions
}

const retryEveryMs = 1_000
/** For some seconds after a change: what it waits for may end without waking anyone, such as a transaction before it. */
const lookEveryMs = 250
const busyForMs = 5_000
/** Otherwise it is woken. This is for what the command line does, and for a process that ends before it wakes others. */
const lookWhenIdleMs = 3_000
const bucketLookEveryMs = 2_000
const writtenEveryMs = 2
const rowsAtOnce = 5_000
/** How often nodes learn that everything up to a generation was for other cells. */
const tellOfOthersEveryMs = 1_000
/** Cache of the last published versions of large policies, so that changes are published as deltas. */
const maxVersionBytes = 128 * 1024 * 1024
/** How many records the plain messages may run ahead of the bucket while that has no leader: what memory may hold. */
const maxWaiting = 50_000
/** A restart of NATS takes a second or two, and an election as long. */
const giveUpWithoutNatsMs = 5_000

const newerInBucket =
  "publisher: the bucket has a newer version, which stays. Another process publishes, or the database is from a backup and 'gatehouse after-restore' was not run"

/**
 * Sends what is in the outbox to the nodes of a cell, in order. Every process runs one for each cell; the one that holds the
 * lock works, and the others stand by. Processes share the cells (share.ts). Ends when `signal` says so.
 */
export async function runPublisher(parts: Parts, signal: AbortSignal): Promise<void> {
  const { database, timing, log, metrics, isConnected } = parts
  const canSign = watchSigningKey(parts)
  while (!signal.aborted) {
    // Without NATS it could only keep the lock from a process that has it.
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
        // It waits for its turn there.
        continue
      }
    } catch (error) {
      if (link.isGone.aborted) log.warn({}, 'publisher: NATS is out of reach; leaving the work to another process')
      // The next look at the key says why.
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

/** A process that cannot sign leaves the lock to one that can. The log has each reason once. */
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

/** `isGone` aborts when NATS has been out of reach for some seconds. */
function watchLink({ isConnected, timing }: Pick<Parts, 'isConnected' | 'timing'>) {
  const gone = new AbortController()
  let connectedAt = timing.elapsed()
  const stop = timing.every(250, () => {
    if (isConnected()) connectedAt = timing.elapsed()
    else if (timing.elapsed() - connectedAt >= giveUpWithoutNatsMs) gone.abort(new Error('NATS is out of reach'))
  })
  return { isGone: gone.signal, stop }
}

/** One process publishes to all waves of a cell, so that what it knows of a rollout holds for each of them. */
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

/** How far a cell is, is how far its first wave is. */
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
  /** Undefined in a cell that has only one. */
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
  /** The tables themselves in a cell with one wave. */
  const ofWave = { database: tables, wave: wave ?? 0, timing, signal: until }
  const database = wave === undefined ? tables : viewOfWave(ofWave)
  const compared = { context: { ...context, findPolicyVersion: fromRules }, onCompared: withheld.noteComparison, live }
  const reconciler = createReconciler({ database, natsSink, timing, log, ...compared }, until)
  const stopLooking = watchBucketAndWaves({ timing, natsSink, locked, waves, fail: bucketWriter.fail })
  let sent = cursor
  /** Up to where the outbox has been read. It is ahead of `sent` by changes that were for other cells. */
  let read = cursor
  let sentAt = timing.elapsed()
  let busyAt = sentAt
  let lastExpiry = timing.now()
  const lost = watchLost(tables, wave)
  const isWritten = () => waitUntilWritten(bucketWriter, timing, until)
  const first = wave === 0 ? await openFirstWave({ locked, tables, natsSink, cursor, isWritten, timing }) : undefined
  /** The first of several waves assigns what it is about to send to rollouts. */
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

/** `finish` would go on for a minute after the bucket was lost; `check` throws at once. */
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
    // Without an answer the session has ended, or the next look gets one.
    const found = await locked.waves().catch(() => waves)
    if (found !== waves) fail(new Error('the cell has other waves now'))
  })
}

type Rows = { rows: OutboxRow[]; settled: number }

/** Keeps only the latest change of each key. Undefined when there is nothing new. */
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
      // What a comparison found to be gone has no account, and an account may have deleted it just before.
      const account_id = row.account_id === noAccount ? (latest.get(key)?.account_id ?? noAccount) : row.account_id
      latest.set(key, { ...row, key, account_id })
    }
  }
  return { rows: [...latest.values()], settled: reached }
}

type Moves = Awaited<ReturnType<PublisherDatabase['moves']>>

/**
 * These changes as nodes of the cell get them. An account may move while its records are read, which would then be what it
 * has elsewhere: they are read again until no move came meanwhile. Those up to `settled` were made before.
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
 * Without what concerns only other cells, so that not even the ids of what their accounts delete get here. Nodes may have
 * something of an account that was placed elsewhere since what they know of, and it is removed. The bucket does not tell:
 * NATS may have lost it, and a comparison may have found that it should go without having sent that yet.
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
