import { type Db, type DbPool, many, one, run } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { transaction } from '../db/transaction.ts'
import type { RecordKey } from '../distribution/records.ts'
import type { SecretsBox } from '../kernel/crypto/secrets_box.ts'
import { readOutbox, settledGeneration, writeOutbox } from '../operations/outbox.ts'
import type { LastWrite, LockedDatabase, PublisherDatabase } from './database.ts'
import { holdingPublisherLock } from './lock.ts'
import { changedSince } from './missing_guard.ts'
import { compileRecords } from './records/compile.ts'
import { noteExpiredRules } from './records/expiry.ts'
import { living } from './records/living.ts'
import { activeSigner, trustedSigningKeys } from './signing_keys.ts'

/** The real database. */
export const publisherDatabase = (pool: DbPool, secrets?: SecretsBox): PublisherDatabase => ({
  signer: () => activeSigner(pool, secrets),
  trustedKeys: () => trustedSigningKeys(pool),
  holdingLock: (giveUp, work) =>
    holdingPublisherLock(pool, giveUp, (db, lost) => work(lockedDatabase(db, secrets), lost)),
  noteExpiredRules: (since, now) => noteExpiredRules(pool, since, now),
  compile: (changed, now, context) => compileRecords(pool, changed, now, context),
  settled: () => settledGeneration(pool),
  resendBelow: async () =>
    (await one<{ resend_below: number }>(pool, sql`select resend_below from publisher_state`)).resend_below,
  living: (kind) => living(pool, kind),
  changedSince: (inBucket) => changedSince(pool, inBucket),
  enqueue: (accountId, keys) => transaction(pool, (tx) => writeOutbox(tx, accountId, keys)),
})

const lockedDatabase = (db: Db, secrets: SecretsBox | undefined): LockedDatabase => ({
  signer: () => activeSigner(db, secrets),
  state: () =>
    one<LastWrite & { cursor: number }>(
      db,
      sql`select cursor, bucket_created as created, bucket_revision as revision from publisher_state`,
    ),
  noteBucket: (created) =>
    run(
      db,
      sql`
      update publisher_state set bucket_created = ${created}, bucket_revision = 0,
        resend_below = greatest(resend_below, case when bucket_created is not null then settled_generation() end)
      where bucket_created is distinct from ${created}`,
    ),
  moveCursor: (settled, revision) =>
    run(db, sql`update publisher_state set cursor = ${settled}, bucket_revision = ${revision}`),
  outboxAfter: (generation, limit) => readOutbox(db, generation, limit),
  async withheld() {
    const rows = await many<{ key: RecordKey; reason: string }>(db, sql`select key, reason from withheld_records`)
    return new Map(rows.map(({ key, reason }) => [key, reason]))
  },
  async noteWithheld(sent, kept, reasons) {
    if (sent.length > 0) await run(db, sql`delete from withheld_records where key = any(${sent})`)
    await run(
      db,
      sql`
      insert into withheld_records (key, since, reason)
      select * from unnest(${kept.map(({ key }) => key)}::text[], ${kept.map(({ generation }) => generation)}::bigint[],
        ${kept.map(({ key }) => reasons.get(key) ?? null)}::text[])
      on conflict (key) do update set reason = excluded.reason`,
    )
  },
})
