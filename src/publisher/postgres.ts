import { lockInTransaction } from '../db/advisory_locks.ts'
import { type Db, type DbPool, later, many, one, run } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { transaction } from '../db/transaction.ts'
import type { RecordKey } from '../distribution/records.ts'
import type { SecretsBox } from '../kernel/crypto/secrets_box.ts'
import type { Uuid } from '../kernel/ids.ts'
import type { Timing } from '../kernel/timing.ts'
import { readOutbox, settledGeneration, writeOutboxOfMany } from '../operations/outbox.ts'
import { type Cell, findCell, placementKey } from '../operations/placement.ts'
import type { LastWrite, LockedDatabase, PublisherDatabase } from './database.ts'
import { lockAgainstPublishers, publisherLocks } from './lock.ts'
import { changedSince } from './missing_guard.ts'
import { compileRecords } from './records/compile.ts'
import { noteExpiredRules } from './records/expiry.ts'
import { living, recordsOf } from './records/living.ts'
import { activeSigner, trustedSigningKeys } from './signing_keys.ts'
import { beginRollouts, heldKeys, heldRecords, holdRecords, unassignedChanges } from './waves/store.ts'

/** The PostgreSQL implementation for the publisher of each cell. */
export function publisherDatabase(
  pool: DbPool,
  timing: Timing,
  secrets?: SecretsBox,
): (cell: Cell) => PublisherDatabase {
  const holdLock = publisherLocks(pool, timing)
  const ofWave = (cell: Cell, wave?: number): PublisherDatabase => ({
    signer: () => activeSigner(pool, secrets),
    trustedKeys: () => trustedSigningKeys(pool),
    holdingLock: (until, work) => holdLock(cell, until, (db, end) => work(lockedDatabase(db, cell, secrets), end)),
    noteExpiredRules: (since, now) => noteExpiredRules(pool, cell, since, now),
    compile: (changed, now, context) => compileRecords(pool, cell, changed, now, context),
    settled: () => settledGeneration(pool),
    resendBelow: async () =>
      (
        await one<{ resend_below: number }>(
          pool,
          sql`select resend_below from ${stateOf(wave)} where ${isStateOf(cell, wave)}`,
        )
      ).resend_below,
    living: (kind) => living(pool, cell, kind),
    recordsOf: (accountId, after) => recordsOf(pool, accountId, after),
    async moves(after) {
      const rows = await many<{ account_id: Uuid; generation: number }>(
        pool,
        sql`
        select account_id, max(generation) as generation from outbox
        where generation > ${after} and key = ${placementKey(cell)} and cell_id = ${cell.id} group by account_id`,
      )
      return new Map(rows.map(({ account_id, generation }) => [account_id, generation]))
    },
    changedSince: (inBucket) => changedSince(pool, inBucket),
    enqueue: (changed) =>
      transaction(pool, (tx) =>
        writeOutboxOfMany(tx, cell, changed, wave === undefined ? undefined : { from: wave, to: wave }),
      ),
    ofWave: (other) => ofWave(cell, other),
    held: (of, keys) => heldRecords(pool, cell, of, keys),
    heldKeys: (of) => heldKeys(pool, cell, of),
  })
  return ofWave
}

/** The first wave's state has its own table from before waves existed. */
const stateOf = (wave = 0) => (wave === 0 ? sql`publisher_state` : sql`wave_state`)
const isStateOf = (cell: Cell, wave = 0) =>
  wave === 0 ? sql`cell_id = ${cell.id}` : sql`(cell_id, wave) = (${cell.id}, ${wave})`

/**
 * Runs the work after the cell was deleted, unless a process still publishes there, which will do the work itself, or a
 * new cell has its name. No new cell gets the name until the work has ended.
 */
export const afterLastPublisher = (pool: DbPool, cell: Cell, work: () => Promise<void>): Promise<void> =>
  transaction(pool, async (tx) => {
    await later(tx, sql`select ${lockInTransaction('placement')}`)
    if ((await lockAgainstPublishers(tx, cell)) && !(await findCell(tx, cell.name))) await work()
  })

const lockedDatabase = (db: Db, cell: Cell, secrets: SecretsBox | undefined, wave = 0): LockedDatabase => ({
  signer: () => activeSigner(db, secrets),
  state: () =>
    one<LastWrite & { cursor: number }>(
      db,
      sql`
      select cursor, bucket_created as created, bucket_revision as revision from ${stateOf(wave)}
      where ${isStateOf(cell, wave)}`,
    ),
  noteBucket: (created) =>
    run(
      db,
      sql`
      update ${stateOf(wave)} set bucket_created = ${created}, bucket_revision = 0,
        resend_below = greatest(resend_below, case when bucket_created is not null then settled_generation() end)
      where ${isStateOf(cell, wave)} and bucket_created is distinct from ${created}`,
    ),
  moveCursor: (settled, revision) =>
    run(
      db,
      sql`update ${stateOf(wave)} set cursor = ${settled}, bucket_revision = ${revision} where ${isStateOf(cell, wave)}`,
    ),
  outboxAfter: (generation, limit) => readOutbox(db, cell, generation, limit, wave),
  async withheld() {
    if (wave > 0) return new Map()
    const rows = await many<{ key: RecordKey; reason: string }>(
      db,
      sql`select key, reason from unsent_records where cell_id = ${cell.id}`,
    )
    return new Map(rows.map(({ key, reason }) => [key, reason]))
  },
  async noteWithheld(sent, kept, reasons) {
    // Only the first wave's records decide what a change lacks.
    if (wave > 0) return
    if (sent.length > 0)
      await run(db, sql`delete from unsent_records where cell_id = ${cell.id} and key = any(${sent})`)
    await run(
      db,
      sql`
      insert into unsent_records (cell_id, key, since, reason)
      select ${cell.id}, * from unnest(${kept.map(({ key }) => key)}::text[], ${kept.map(({ generation }) => generation)}::bigint[],
        ${kept.map(({ key }) => reasons.get(key) ?? null)}::text[])
      on conflict (cell_id, key) do update set reason = excluded.reason`,
    )
  },
  ofWave: (other) => lockedDatabase(db, cell, secrets, other),
  waves: async () => (await one<{ waves: number }>(db, sql`select waves from cells where id = ${cell.id}`)).waves,
  beginRollouts: () => beginRollouts(db, cell),
  unassigned: (accounts) => unassignedChanges(db, cell, accounts),
  hold: (holding) => holdRecords(db, cell, holding),
})
