import type { NatsConnection } from '@nats-io/transport-node'
import { tryLockInSession } from '../db/advisory_locks.ts'
import { type Db, type DbPool, one, queryOn, run } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { type Batch, type Progress, wakeSubject } from '../distribution/channels.ts'
import { digestOf, type Signer, seal } from '../distribution/signature.ts'
import type { Clock } from '../kernel/clock.ts'
import type { Uuid } from '../kernel/ids.ts'
import type { Log } from '../kernel/log.ts'
import { pause } from '../kernel/pause.ts'
import { type OutboxRow, readOutbox } from '../operations/outbox.ts'
import type { Means } from './changed.ts'
import { type Compiled, compileRecords } from './compile.ts'
import { noteExpiredRules } from './expiry.ts'
import { type LastWrite, type NatsSink, openNatsSink } from './nats_sink.ts'
import { createPolicyVersions } from './policy_versions.ts'
import { createReconciler } from './reconciler.ts'
import { activeSigner } from './signing_keys.ts'

export type PublisherMetrics = {
  published: (records: number) => void
  behind: (generations: number) => void
  sent: (generation: number) => void
  active: (isActive: boolean) => void
}
type Parts = {
  pool: DbPool
  nats: NatsConnection
  replicas: number
  clock: Clock
  log: Log
  metrics: PublisherMetrics
  means: Means
}

const lookEveryMs = 250
const bucketLookEveryMs = 2_000
const rowsAtOnce = 5_000
/** Of large policies as they were last published, so that the next change of one is a small one. */
const maxVersionBytes = 128 * 1024 * 1024
/** How many records the plain messages may run ahead of the bucket while that has no leader: what memory may hold. */
const maxWaiting = 50_000
/** A node whose NATS server died has missed messages, and the bucket may not have them yet. */
const repeatEveryMs = 1_000
const maxRepeats = 3

/**
 * Sends what is in the outbox to the edges, in order. Every process runs one; the one that holds the lock works, and the
 * others stand by. Ends when `signal` says so.
 */
export async function runPublisher(parts: Parts, signal: AbortSignal): Promise<void> {
  const { pool, log, metrics } = parts
  while (!signal.aborted) {
    try {
      await holdingTheLock(pool, signal, async (db, lost) => {
        metrics.active(true)
        log.info({}, 'publisher: active')
        await publish(parts, db, AbortSignal.any([signal, lost]))
      })
    } catch (error) {
      if (!signal.aborted) log.error({ err: error }, 'publisher: failed; retrying')
    } finally {
      metrics.active(false)
    }
    await pause(1_000, signal)
  }
}

/** Held on a dedicated connection, so it is released as soon as that process ends. */
async function holdingTheLock(
  pool: DbPool,
  signal: AbortSignal,
  work: (db: Db, lost: AbortSignal) => Promise<void>,
): Promise<void> {
  const client = await pool.connect()
  const lost = new AbortController()
  const onEnd = () => lost.abort()
  client.on('error', onEnd)
  client.on('end', onEnd)
  try {
    const db: Db = { query: (statement) => queryOn(client, statement) }
    const { locked } = await one<{ locked: boolean }>(db, sql`select ${tryLockInSession('publisher')} as locked`)
    if (locked) await work(db, AbortSignal.any([signal, lost.signal]))
  } finally {
    // Not back into the pool: closing the connection is what frees the lock.
    client.release(true)
  }
}

async function publish(
  { pool, nats, replicas, clock, log, metrics, means }: Parts,
  db: Db,
  signal: AbortSignal,
): Promise<void> {
  const { cursor, created, revision } = await one<LastWrite & { cursor: number }>(
    db,
    sql`select cursor, bucket_created as created, bucket_revision as revision from publisher_state`,
  )
  const natsSink = await openNatsSink(nats, replicas, { created, revision })
  await noteBucket(db, natsSink.bucketCreated)
  const bucketWriter = createKeeper(natsSink, (settled, last) =>
    run(db, sql`update publisher_state set cursor = ${settled}, bucket_revision = ${last}`),
  )
  const wake = createWake(nats)
  const over = new AbortController()
  const policyVersions = createPolicyVersions(maxVersionBytes)
  const reconciling = { ...means, findPolicyVersion: policyVersions.fromRules }
  const reconciler = createReconciler(
    { pool, natsSink, clock, log, means: reconciling },
    AbortSignal.any([signal, over.signal]),
  )
  const stopLooking = watchBucketIdentity(natsSink, bucketWriter.fail)
  let sent = cursor
  let lastExpiry = clock()
  try {
    while (!signal.aborted) {
      bucketWriter.check()
      const signer = await activeSigner(db)
      if (!signer) {
        log.warn({}, "publisher: no signing key. Run 'gatehouse signing-keys add'")
        await pause(5_000, signal)
        continue
      }
      const now = clock()
      await noteExpiredRules(pool, lastExpiry, now)
      lastExpiry = now
      const batch = await nextBatch(db, sent)
      metrics.behind(batch ? batch.settled - sent : 0)
      reconciler.tend(signer.keyId, !batch && bucketWriter.isIdle())
      if (!batch && !reconciler.isToBeSaid(signer.keyId, sent)) {
        await wake.wait(lookEveryMs, signal)
        continue
      }
      const { rows, settled } = batch ?? { rows: [], settled: sent }
      const compiled = await compileRecords(
        pool,
        rows.map(({ key, account_id }) => ({ key, accountId: account_id as Uuid })),
        now,
        { ...means, findPolicyVersion: policyVersions.current },
      )
      await natsSink.putBlobs(compiled.flatMap(({ blobs }) => blobs))
      const progress = { after: sent, settled, ...reconciler.completeAt(signer.keyId, settled) }
      const sealed = sealBatch(compiled, rows, progress, signer)
      natsSink.announce(sealed)
      bucketWriter.add(
        sealed,
        compiled.map(({ key }) => key),
        settled,
      )
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

function sealBatch(compiled: Compiled[], rows: readonly OutboxRow[], progress: Progress, signer: Signer): Batch {
  const generations = new Map(rows.map(({ key, generation }) => [key, generation]))
  const records = compiled.map(({ key, value, rules }) =>
    seal({ key, generation: generations.get(key), value, ...(rules && { rules }) }, signer),
  )
  return { progress: seal({ ...progress, digest: digestOf(records) }, signer), records }
}

/** Puts batches into the bucket one after another, and moves the cursor after each. It waits out elections. */
function createKeeper(natsSink: NatsSink, moveCursor: (settled: number, revision: number) => Promise<void>) {
  const queue: { batch: Batch; keys: string[]; settled: number; repeats: number }[] = []
  let records = 0
  let working: Promise<void> | undefined
  let fault: unknown
  let stopped = false
  async function work(): Promise<void> {
    for (let next = queue[0]; next && !stopped; next = queue[0]) {
      const kept = new Set<string>()
      const revision = await keepTrying(
        () => natsSink.keep(next.batch, next.keys, kept),
        () => stopped,
      )
      await moveCursor(next.settled, revision)
      queue.shift()
      records -= next.keys.length
    }
    working = undefined
  }
  let waitingSinceLast = new Set<Batch>()
  const repeating = setInterval(() => {
    for (const item of queue)
      if (waitingSinceLast.has(item.batch) && item.repeats++ < maxRepeats) natsSink.announce(item.batch)
    waitingSinceLast = new Set(queue.map(({ batch }) => batch))
  }, repeatEveryMs)
  return {
    add(batch: Batch, keys: string[], settled: number) {
      queue.push({ batch, keys, settled, repeats: 0 })
      records += keys.length
      working ??= work().catch((error) => {
        fault = error
      })
    },
    recordsWaiting: () => records,
    isIdle: () => queue.length === 0,
    fail(error: unknown) {
      fault ??= error
    },
    /** Whoever is active next begins at the cursor: a batch that is put later would overwrite newer records. */
    stop() {
      stopped = true
      clearInterval(repeating)
    },
    check() {
      if (fault) throw fault
    },
    finish: async () => working,
  }
}

/** An election takes seconds. After a minute it is something else, and the publisher starts over from its cursor. */
async function keepTrying<Result>(work: () => Promise<Result>, isOver: () => boolean): Promise<Result> {
  const giveUpAt = Date.now() + 60_000
  for (;;) {
    try {
      return await work()
    } catch (error) {
      if (Date.now() > giveUpAt || isOver()) throw error
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
  }
}

function createWake(nats: NatsConnection) {
  let pending = false
  let ring = () => {}
  const subscription = nats.subscribe(wakeSubject, {
    callback() {
      pending = true
      ring()
    },
  })
  return {
    async wait(ms: number, signal: AbortSignal) {
      if (!pending) {
        const rung = new AbortController()
        ring = () => rung.abort()
        await pause(ms, AbortSignal.any([signal, rung.signal]))
      }
      pending = false
    },
    stop: () => subscription.unsubscribe(),
  }
}
