import { hash } from 'node:crypto'
import { type DbPool, many, one } from '../db/pool.ts'
import { type SqlFragment, sql } from '../db/sql.ts'
import { transaction } from '../db/transaction.ts'
import { progressKey, recordBucket } from '../distribution/channels.ts'
import type { EdgeRecord, RecordKey, RecordKind } from '../distribution/records.ts'
import { isRecordKey } from '../distribution/validate.ts'
import { firstUuidOf, type IdPrefix, toId, type Uuid } from '../kernel/ids.ts'
import { settledGeneration, writeOutbox } from '../operations/outbox.ts'
import type { Changed, Means } from './changed.ts'
import { compileRecords } from './compile.ts'
import type { NatsSink } from './nats_sink.ts'

const pageSize = 1_000

/** Where everything that has a record stands, by kind. */
const live: Record<RecordKind, { prefix: IdPrefix; from: SqlFragment }> = {
  tcp: { prefix: 'edgtcp', from: sql`edges where kind = 'tcp'` },
  https: { prefix: 'edghts', from: sql`edges where kind = 'https'` },
  route: { prefix: 'edghtsrt', from: sql`edges where kind = 'route'` },
  backend: { prefix: 'bkdst', from: sql`backends where kind = 'static'` },
  weighted: { prefix: 'bkdwd', from: sql`backends where kind = 'weighted'` },
  failover: { prefix: 'bkdfo', from: sql`backends where kind = 'failover'` },
  response: { prefix: 'bkdhr', from: sql`backends where kind = 'http_response'` },
  policy: { prefix: 'ipp', from: sql`ip_policies where true` },
  certificate: {
    prefix: 'cert',
    from: sql`(
      select distinct account_id, certificate_id as id from reserved_domains where certificate_id is not null) used where true`,
  },
  recipient: {
    prefix: 'enk',
    from: sql`(select ${firstUuidOf(0)}::uuid as account_id, id from edge_node_keys where accepted) recipients where true`,
  },
  challenge: { prefix: 'chl', from: sql`acme_challenges where true` },
  restrictions: {
    prefix: 'ac',
    // An account with an edge has this record even without restrictions: nodes refuse traffic of unknown accounts.
    from: sql`(
      select id as account_id, id from accounts a
      where exists (select from edges e where e.account_id = a.id and e.parent_id is null)
        or exists (select from ip_restrictions r where r.account_id = a.id and r.type = 'endpoints')) owners where true`,
  },
}

/**
 * Compares the bucket with the database and puts whatever differs, is missing or should be gone into the outbox, to be
 * sent like any change. It repairs a NATS that lost data or was empty, and re-signs what another key had signed.
 * Resolves to the number of records and to the generation with which the last of them was written: once that is sent, the
 * bucket holds everything, and nothing under a generation below `floor`.
 */
export async function reconcile(
  pool: DbPool,
  natsSink: NatsSink,
  signingKeyId: string,
  now: number,
  signal: AbortSignal,
  means: Means = {},
): Promise<{ healed: number; generation: number; floor: number }> {
  const kept = await natsSink.contents(fingerprint)
  const settled = await settledGeneration(pool)
  const { resend_below } = await one<{ resend_below: number }>(pool, sql`select resend_below from publisher_state`)
  const asItShouldBe = { signingKeyId, resendBelow: resend_below }
  await natsSink.refreshBlobs()
  kept.delete(progressKey)
  let healed = 0
  let generation = 0
  let present = 0
  let isEverythingSent = true
  const enqueue = async (changed: readonly Changed[]) => {
    for (const [accountId, ofAccount] of Map.groupBy(changed, ({ accountId }) => accountId)) {
      const keys = ofAccount.map(({ key }) => key)
      generation = await transaction(pool, (tx) => writeOutbox(tx, accountId, keys))
    }
    healed += changed.length
  }
  for (const [kind, { prefix, from }] of Object.entries(live) as [RecordKind, (typeof live)[RecordKind]][]) {
    for await (const page of pages(pool, from)) {
      signal.throwIfAborted()
      const changed = page.map(
        ({ account_id, id }): Changed => ({ key: `${kind}.${toId(prefix, id)}`, accountId: account_id }),
      )
      const compiled = await compileRecords(pool, changed, now, means)
      // A record may exist while a piece of its policy is missing: a node without that piece could never apply it.
      await natsSink.putBlobs(compiled.flatMap(({ blobs }) => blobs))
      const differing = compiled
        .filter(({ key, value, rules }) => !isSame(kept.get(key), { value, rules }, asItShouldBe))
        .map(({ key }) => key)
      // What cannot be compiled now stays as nodes have it.
      if (compiled.length < changed.length) isEverythingSent = false
      const owners = new Map(changed.map(({ key, accountId }) => [key, accountId]))
      for (const { key } of changed) kept.delete(key)
      present += changed.length
      await enqueue(differing.map((key) => ({ key, accountId: owners.get(key) as Uuid })))
    }
  }
  // What is left is in the bucket and not in the database: gone, unless the bucket says so already.
  const gone = [...kept]
    .filter(([key, found]) => isRecordKey(key) && !isSame(found, { value: null }, asItShouldBe))
    .map(([key]) => key as RecordKey)
  refuseIfMostIsMissing(gone.filter((key) => kept.get(key)?.value !== null).length, present)
  await enqueue(gone.map((key) => ({ key, accountId: firstUuidOf(0) })))
  await natsSink.sweepBlobs()
  // Of changes that had not ended when this began, some may have been missed: they come under later generations.
  return { healed, generation, floor: isEverythingSent ? Math.min(resend_below, settled) : 0 }
}

/**
 * Somebody's wrong or empty database must not take every edge down. Deletions that were made come through the outbox; what
 * only this comparison finds is rarely much. Whoever means it can empty the bucket.
 */
function refuseIfMostIsMissing(missing: number, present: number): void {
  if (missing <= 100 || missing <= present) return
  throw new Error(
    `the database lacks ${missing} resources that edges serve and has only ${present}. Is it the right database? Nothing was removed from the edges. If it is right, delete the bucket ${recordBucket} in NATS`,
  )
}

async function* pages(pool: DbPool, from: SqlFragment): AsyncGenerator<{ account_id: Uuid; id: Uuid }[]> {
  const nil = '00000000-0000-0000-0000-000000000000' as Uuid
  let after = { account_id: nil, id: nil }
  for (;;) {
    const page = await many<{ account_id: Uuid; id: Uuid }>(
      pool,
      sql`select account_id, id from ${from} and (account_id, id) > (${after.account_id}, ${after.id}) order by account_id, id limit ${pageSize}`,
    )
    if (page.length) yield page
    const last = page.at(-1)
    if (!last || page.length < pageSize) return
    after = last
  }
}

type Wanted = { signingKeyId: string; resendBelow: number }
/** What a comparison needs of a record in the bucket. The value is its hash, and null where the thing is gone. */
type Fingerprint = { signedBy: string; generation: number; value: string | null }

type Contents = { value: EdgeRecord['value']; rules?: EdgeRecord['rules'] | undefined }
const hashOf = ({ value, rules }: Contents): string | null =>
  value && hash('sha256', JSON.stringify(rules ? [value, rules] : value), 'base64')

/** Undefined for what no record can be read from. */
function fingerprint(text: string): Fingerprint | undefined {
  try {
    const { payload, key } = JSON.parse(text)
    const { generation, value, rules }: EdgeRecord = JSON.parse(payload)
    return { signedBy: key, generation, value: hashOf({ value, rules }) }
  } catch {
    return undefined
  }
}

const isSame = (found: Fingerprint | undefined, contents: Contents, wanted: Wanted): boolean =>
  found?.signedBy === wanted.signingKeyId && found.generation >= wanted.resendBelow && found.value === hashOf(contents)
