import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import { Kvm } from '@nats-io/kv'
import { startNats } from '../../dev/nats.ts'
import { many, one, openPool, run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { transaction } from '../../src/db/transaction.ts'
import { blobBucket } from '../../src/distribution/channels.ts'
import { blobName } from '../../src/distribution/pieces.ts'
import { createSigner, newSigningKey, seal } from '../../src/distribution/signature.ts'
import { newId, newUuid, toId, type Uuid } from '../../src/kernel/ids.ts'
import { skipGenerations } from '../../src/operations/outbox.ts'
import { compileRecords } from '../../src/publisher/compile.ts'
import { openNatsSink } from '../../src/publisher/nats_sink.ts'
import { reconcile } from '../../src/publisher/reconcile.ts'
import { newDatabase } from '../harness/control_plane.ts'
import { connectAsControlPlane } from '../harness/nats.ts'

const nats = await startNats()
after(() => nats.stop())
const { publicKey, privateKey } = newSigningKey()
const signer = createSigner(publicKey, privateKey)

/** A bucket with this many backends, and a database that knows none of them. */
async function bucketWith(count: number) {
  const connection = await connectAsControlPlane({ after }, nats)
  const { streams } = await jetstreamManager(connection)
  for await (const { config } of streams.list()) await streams.delete(config.name)
  const natsSink = await openNatsSink(connection, 1)
  const keys = Array.from({ length: count }, () => `backend.${newId('bkdst')}` as const)
  const value = { host: 'a.example', port: 1, tls: false }
  const records = keys.map((key) => seal({ key, generation: 1, value }, signer))
  await natsSink.keep({ progress: seal({ after: 0, settled: 1 }, signer), records }, keys)
  const db = openPool(
    { url: await newDatabase(), poolSize: 2, connectTimeoutMs: 10_000, statementTimeoutMs: 60_000 },
    () => {},
  )
  after(() => db.end())
  const compare = () => reconcile(db, natsSink, signer.keyId, Date.now(), new AbortController().signal)
  const outbox = () => many<{ key: string }>(db, sql`select key from outbox`)
  return { compare, outbox, keys, natsSink, connection, db }
}

test('row 3: accounts with edges get a restrictions record even when they have no restrictions; others get none', async () => {
  const { compare, outbox, db } = await bucketWith(0)
  const [owner, restricted, neither] = [newUuid(), newUuid(), newUuid()]
  for (const id of [owner, restricted, neither])
    await run(db, sql`insert into accounts (id, name) values (${id}, ${id})`)
  await run(db, sql`insert into edges (account_id, id, kind) values (${owner}, ${newUuid()}, 'https')`)
  await run(
    db,
    sql`insert into ip_restrictions (account_id, id, type, enforced) values (${restricted}, ${newUuid()}, 'endpoints', true)`,
  )
  const { generation } = await compare()
  assert.ok(generation > 0)
  const keyOf = (id: Uuid) => `restrictions.${toId('ac', id)}` as const
  const sent = (await outbox()).map(({ key }) => key).filter((key) => key.startsWith('restrictions.'))
  assert.deepEqual(sent.sort(), [keyOf(owner), keyOf(restricted)].sort())
  const wanted = [owner, neither].map((accountId) => ({ key: keyOf(accountId), accountId }))
  const compiled = await compileRecords(db, wanted, Date.now())
  assert.deepEqual(
    compiled.map(({ value }) => value),
    [{ sets: [] }, null],
  )
})

test('a few records missing from the database are removed from the edges', async () => {
  const { compare, outbox, keys } = await bucketWith(50)
  assert.equal((await compare()).healed, 50)
  assert.deepEqual((await outbox()).map(({ key }) => key).sort(), [...keys].sort())
})

test('a wrong database, which lacks all records, removes nothing from the edges', async () => {
  const { compare, outbox } = await bucketWith(101)
  await assert.rejects(compare, /Is it the right database\? Nothing was removed/)
  assert.deepEqual(await outbox(), [])
})

test('pieces unused for two passes are deleted from NATS, and return when a policy needs them', async () => {
  const { natsSink, connection } = await bucketWith(0)
  const names = async () => Array.fromAsync(await (await new Kvm(jetstream(connection)).open(blobBucket)).keys())
  const [kept, left] = [Buffer.from('kept'), Buffer.from('left')]
  const pass = async (...pieces: Buffer[]) => {
    await natsSink.refreshBlobs()
    await natsSink.putBlobs(pieces)
    return natsSink.sweepBlobs()
  }
  assert.equal(await pass(kept, left), 0)
  assert.equal(await pass(kept), 0)
  assert.ok((await names()).includes(blobName(left)))
  assert.equal(await pass(kept), 1)
  assert.ok((await names()).includes(blobName(kept)))
  assert.ok(!(await names()).includes(blobName(left)))
  // Wanted again at the very moment at which it goes, as when a change is taken back.
  await natsSink.putBlobs([left])
  for (let turn = 0; turn < 2; turn++) await pass(kept)
  await Promise.all([natsSink.sweepBlobs(), pass(kept), natsSink.putBlobs([left])])
  assert.ok((await names()).includes(blobName(left)))
})

test('the floor is the generation from which on everything was sent again', async () => {
  const { compare, db } = await bucketWith(5)
  assert.equal((await compare()).floor, 0)
  const { after: skippedTo } = await skipGenerations(db)
  const { floor, generation } = await compare()
  assert.equal(floor, skippedTo)
  assert.ok(generation > floor)
})

test('a change that has not ended when the comparison begins keeps the floor below its generation', async () => {
  const { compare, db } = await bucketWith(5)
  const {
    after: skippedTo,
    floor,
    unended,
  } = await transaction(db, async (tx) => {
    const { generation } = await one<{ generation: number }>(tx, sql`select next_generation() as generation`)
    return { ...(await skipGenerations(db)), ...(await compare()), unended: generation }
  })
  assert.ok(floor < unended, `${floor} ${unended}`)
  assert.equal((await compare()).floor, skippedTo)
})

test('while a certificate cannot be decrypted there is no floor, and nodes keep the certificate', async () => {
  const { compare, db } = await bucketWith(0)
  const [account, certificate] = [newUuid(), newUuid()]
  await run(db, sql`insert into accounts (id, name) values (${account}, 'a')`)
  await run(
    db,
    sql`
    insert into tls_certificates
      (account_id, id, source, certificate_pem, private_key, secrets_key_id, not_before, not_after, facts)
    values (${account}, ${certificate}, 'uploaded', 'chain', ${Buffer.alloc(29)}, '0000000000000000', now(), now(), '{}')`,
  )
  await run(
    db,
    sql`
    insert into reserved_domains (account_id, id, domain, challenge, status, certificate_id)
    values (${account}, ${newUuid()}, 'a.example', '0123456789abcdef', 'assigned', ${certificate})`,
  )
  await skipGenerations(db)
  assert.equal((await compare()).floor, 0)
  await run(db, sql`delete from reserved_domains`)
  assert.ok((await compare()).floor > 1_000_000_000)
})
