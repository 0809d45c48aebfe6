import type { NatsConnection } from '@nats-io/transport-node'
import { type Db, type DbPool, one, run } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import type { Batch, Progress } from '../distribution/channels.ts'
import type { RecordKey } from '../distribution/records.ts'
import { digestOf, type Signer, seal } from '../distribution/signature.ts'
import type { Clock } from '../kernel/clock.ts'
import type { Uuid } from '../kernel/ids.ts'
import type { Log } from '../kernel/log.ts'
import { pause } from '../kernel/pause.ts'
import { type OutboxRow, readOutbox } from '../operations/outbox.ts'
import { createBucketWriter } from './bucket_writer.ts'
import { type Means, notingUnavailable } from './changed.ts'
import { type Compiled, compileRecords } from './compile.ts'
import { noteExpiredRules } from './expiry.ts'
import { createLiveRecords, type LiveRecords } from './live_records.ts'
import { holdingPublisherLock } from './lock.ts'
import { type LastWrite, type NatsSink, openNatsSink } from './nats_sink.ts'
import { createPolicyVersions } from './policy_versions.ts'
import { createReconciler } from './reconciler.ts'
import { activeSigner, CannotSign, trustedSigningKeys } from './signing_keys.ts'
import type { Suspicions } from './suspicions.ts'
import { createWake } from './wake.ts'
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
  pool: DbPool
  nats: NatsConnection
  /** Whether NATS is reachable now. */
  isConnected: () => boolean
  replicas: number
  clock: Clock
  log: Log
  metrics: PublisherMetrics
  means: Means
  suspicions: Suspicions
}

const retryEveryMs = 1_000
const lookEveryMs = 250
const bucketLookEveryMs = 2_000
const rowsAtOnce = 5_000
/** Of large policies as they were last published, so that the next change of one is a small one. */
const maxVersionBytes = 128 * 1024 * 1024
/** How many records the plain messages may run ahead of the bucket while that has no leader: what memory may hold. */
const maxWaiting = 50_000
/** A restart of NATS takes a second or two, and an election as long. */
const giveUpWithoutNatsMs = 5_000

const newerInBucket =
  "publisher: the bucket has a newer version, which stays. Another process publishes, or the database is from a backup and 'gatehouse after-restore' was not run"

/**
 * Sends what is in the outbox to the edges, in order. Every process runs one; the one that holds the lock works, and the
 * others stand by. Ends when `signal` says so.
 */
export async function runPublisher(parts: Parts, signal: AbortSignal): Promise<void> {
  const { pool, log, metrics, isConnected } = parts
  const canSign = watchSigningKey(parts)
  while (!signal.aborted) {
    // Without NATS it could only keep the lock from a process that has it.
    if (!isConnected()) {
      await pause(retryEveryMs, signal)
      continue
    }
    const link = watchLink(parts)
    try {
      if (await canSign())
        await holdingPublisherLock(pool, link.isGone, async (db, lost) => {
          metrics.active(true)
          log.info({}, 'publisher: active')
          await publish(parts, db, AbortSignal.any([signal, lost, link.isGone]))
        })
    } catch (error) {
      if (link.isGone.aborted) log.warn({}, 'publisher: NATS is out of reach; leaving the work to another process')
      // The next look at the key says why.
      else if (!(error instanceof CannotSign) && !signal.aborted)
        log.error({ err: error }, 'publisher: failed; retrying')
    } finally {
      link.stop()
      metrics.active(false)
      metrics.heldBack(0, undefined)
    }
    await pause(retryEveryMs, signal)
  }
}

/** A process that cannot sign leaves the lock to one that can. The log has each reason once. */
function watchSigningKey({ pool, means, log, metrics }: Pick<Parts, 'pool' | 'means' | 'log' | 'metrics'>) {
  let logged: string | undefined
  return async (): Promise<boolean> => {
    const fault = await activeSigner(pool, means.secrets).then(
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
function watchLink({ isConnected, clock }: Pick<Parts, 'isConnected' | 'clock'>) {
  const gone = new AbortController()
  let connectedAt = clock()
  const timer = setInterval(() => {
    if (isConnected()) connectedAt = clock()
    else if (clock() - connectedAt >= giveUpWithoutNatsMs) gone.abort(new Error('NATS is out of reach'))
  }, 250)
  return { isGone: gone.signal, stop: () => clearInterval(timer) }
}

async function publish(
  { pool, nats, replicas, clock, log, metrics, means, suspicions }: Parts,
  db: Db,
  signal: AbortSignal,
): Promise<void> {
  const { cursor, created, revision } = await one<LastWrite & { cursor: number }>(
    db,
    sql`select cursor, bucket_created as created, bucket_revision as revision from publisher_state`,
  )
  const fence = {
    loadTrustedKeys: () => trustedSigningKeys(pool),
    onNewer: (key: string) => log.warn({ key }, newerInBucket),
  }
  const natsSink = await openNatsSink(nats, replicas, { created, revision }, fence)
  await noteBucket(db, natsSink.bucketCreated)
  const bucketWriter = createBucketWriter(natsSink, clock, (settled, last) =>
    run(db, sql`update publisher_state set cursor = ${settled}, bucket_revision = ${last}`),
  )
  const wake = createWake(nats)
  const over = new AbortController()
  const policyVersions = createPolicyVersions(maxVersionBytes)
  const withheld = await openWithheld(db, metrics.heldBack)
  const reconciling = { ...means, findPolicyVersion: policyVersions.fromRules }
  const live = createLiveRecords()
  const reconciler = createReconciler(
    { pool, natsSink, clock, log, means: reconciling, onCompared: withheld.noteComparison, live },
    AbortSignal.any([signal, over.signal]),
  )
  const stopLooking = watchBucketIdentity(natsSink, bucketWriter.fail)
  let sent = cursor
  let lastExpiry = clock()
  try {
    while (!signal.aborted) {
      bucketWriter.check()
      const signer = await activeSigner(db, means.secrets)
      const now = clock()
      await noteExpiredRules(pool, lastExpiry, now)
      lastExpiry = now
      const batch = await nextBatch(db, sent)
      metrics.behind(batch ? batch.settled - sent : 0)
      for (const key of suspicions.take()) reconciler.suspect(key)
      reconciler.tend(signer.keyId, !batch && bucketWriter.isIdle())
      if (!batch && !reconciler.isToBeSaid(signer.keyId, sent)) {
        await wake.wait(lookEveryMs, signal)
        continue
      }
      const { rows, settled } = batch ?? { rows: [], settled: sent }
      const unavailable = new Map<RecordKey, string>()
      const compiled = await compileRows(pool, rows, now, {
        ...notingUnavailable(means, unavailable),
        maxMessageBytes: natsSink.maxMessageBytes(),
        findPolicyVersion: policyVersions.current,
      })
      await withheld.note(rows, unavailable)
      await natsSink.putBlobs(compiled.flatMap(({ blobs }) => blobs))
      noteSent(live, compiled, rows)
      const progress = { after: sent, settled, ...reconciler.completeAt(signer.keyId, settled) }
      const sealed = sealBatch(compiled, rows, progress, signer)
      natsSink.announce(sealed)
      const keys = compiled.map(({ key }) => key)
      bucketWriter.add(sealed, keys, settled)
      metrics.published(compiled.length)
      metrics.sent(settled)
      sent = settled
      while (bucketWriter.recordsWaiting() > maxWaiting && !signal.aborted) await pause(50, signal)
    }
    // Whatever is not stored by then is sent again from the cursor by the next active publisher.
    await Promise.race([bucketWriter.finish(), pause(2_000, new AbortController().signal)])
  } finally {
    over.abort()
    stopLooking()
    bucketWriter.stop()
    wake.stop()
  }
}

/**
 * A lost bucket takes deletions with it that a node may not have heard of. So everything that exists is sent under a new
 * generation, by which nodes tell it from the rest.
 */
const noteBucket = (db: Db, created: string) =>
  run(
    db,
    sql`
    update publisher_state set bucket_created = ${created}, bucket_revision = 0,
      resend_below = greatest(resend_below, case when bucket_created is not null then settled_generation() end)
    where bucket_created is distinct from ${created}`,
  )

/** NATS may lose its data without dropping connections. Writes to the lost buckets would then fail. */
function watchBucketIdentity(natsSink: NatsSink, fail: (error: Error) => void): () => void {
  const timer = setInterval(async () => {
    if (!(await natsSink.isIntact())) fail(new Error('NATS has lost the contents of the buckets'))
  }, bucketLookEveryMs)
  return () => clearInterval(timer)
}

type Rows = { rows: OutboxRow[]; settled: number }

/** Of several changes of one thing the last. Undefined when there is nothing new. */
async function nextBatch(db: Db, after: number): Promise<Rows | undefined> {
  const { rows, settled } = await readOutbox(db, after, rowsAtOnce)
  const last = rows.at(-1)
  const reached = rows.length >= rowsAtOnce && last ? last.generation : settled
  if (reached <= after) return undefined
  const latest = new Map(rows.map((row) => [row.key, row]))
  return { rows: [...latest.values()], settled: reached }
}

const compileRows = (pool: DbPool, rows: readonly OutboxRow[], now: number, means: Means): Promise<Compiled[]> =>
  compileRecords(
    pool,
    rows.map(({ key, account_id }) => ({ key, accountId: account_id as Uuid })),
    now,
    means,
  )

function noteSent(live: LiveRecords, compiled: readonly Compiled[], rows: readonly OutboxRow[]): void {
  const generations = new Map(rows.map(({ key, generation }) => [key, generation]))
  for (const { key, value } of compiled) live.sent(key, value === null ? undefined : generations.get(key))
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
