import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import { Kvm } from '@nats-io/kv'
import { startNats } from '../../dev/nats.ts'
import { many, one, openPool, run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { transaction } from '../../src/db/transaction.ts'
import { defaultChannels } from '../../src/distribution/channels.ts'
import { blobName } from '../../src/distribution/pieces.ts'
import type { RecordKey } from '../../src/distribution/records.ts'
import { createSigner, newSigningKey, seal } from '../../src/distribution/signature.ts'
import { newId, newUuid, toId, type Uuid } from '../../src/kernel/ids.ts'
import { systemTiming } from '../../src/kernel/system_timing.ts'
import { skipGenerations, writeOutbox } from '../../src/operations/outbox.ts'
import { defaultCell } from '../../src/operations/placement.ts'
import { bucketServer } from '../../src/publisher/bucket/bucket_server.ts'
import { openNatsSink } from '../../src/publisher/bucket/nats_sink.ts'
import { describeHeldBack } from '../../src/publisher/missing_guard.ts'
import { publisherDatabase } from '../../src/publisher/postgres.ts'
import { reconcile } from '../../src/publisher/reconcile.ts'
import { compileRecords } from '../../src/publisher/records/compile.ts'
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
  const natsSink = await openNatsSink(connection, bucketServer(connection, 1), defaultChannels)
  const keys = Array.from({ length: count }, () => `backend.${newId('bkdst')}` as const)
  const value = { host: 'a.example', port: 1, tls: false }
  const records = keys.map((key) => seal({ key, generation: 1, value }, signer))
  await natsSink.keep({ progress: seal({ after: 0, settled: 1 }, signer), records }, keys)
  const db = openPool(
    { url: await newDatabase(), poolSize: 2, connectTimeoutMs: 60_000, statementTimeoutMs: 60_000 },
    () => {},
  )
  after(() => db.end())
  const compare = () =>
    reconcile(
      publisherDatabase(db, systemTiming)(defaultCell),
      natsSink,
      signer.keyId,
      Date.now(),
      new AbortController().signal,
    )
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
  const compiled = await compileRecords(db, defaultCell, wanted, Date.now())
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

/** Two accounts with 15 HTTPS edges and a route to each, which the bucket has and nodes serve. */
async function bucketWithAccounts() {
  const { compare, outbox, natsSink, db } = await bucketWith(0)
  const accounts = [newUuid(), newUuid()] as const
  for (const id of accounts) {
    await run(db, sql`insert into accounts (id, name) values (${id}, ${id})`)
    for (let site = 0; site < 15; site++) {
      const edge = newUuid()
      await run(db, sql`insert into edges (account_id, id, kind) values (${id}, ${edge}, 'https')`)
      await run(
        db,
        sql`
        insert into edges (account_id, id, kind, parent_id, match_type, match)
        values (${id}, ${newUuid()}, 'route', ${edge}, 'path_prefix', '/')`,
      )
    }
  }
  /** `isOlder`: as a version before rules expired on nodes. */
  const publish = async (isOlder = false) => {
    const rows = await many<{ key: RecordKey; account_id: Uuid; generation: number }>(
      db,
      sql`select distinct on (key) key, account_id, generation from outbox order by key, generation desc`,
    )
    const changed = rows.map(({ key, account_id }) => ({ key, accountId: account_id }))
    const generations = new Map(rows.map(({ key, generation }) => [key, generation]))
    const compiled = await compileRecords(db, defaultCell, changed, Date.now())
    const records = compiled.map(({ key, value, rules, expiring }) =>
      seal(
        {
          ...{ key, generation: generations.get(key), value },
          ...(rules && { rules }),
          ...(expiring && !isOlder && { expiring }),
        },
        signer,
      ),
    )
    const settled = Math.max(...generations.values())
    const keys = compiled.map(({ key }) => key)
    await natsSink.keep({ progress: seal({ after: 0, settled }, signer), records }, keys)
    await run(db, sql`delete from outbox`)
  }
  await compare()
  await publish()
  assert.equal((await compare()).healed, 0)
  return { compare, outbox, publish, db, accounts }
}

test('an account whose rows are lost changes nothing at the edges and is named; the others are compared', async () => {
  const { compare, outbox, db, accounts } = await bucketWithAccounts()
  const [lost, other] = accounts
  await run(db, sql`delete from edges where account_id = ${lost} and parent_id is not null`)
  await run(db, sql`delete from edges where account_id = ${lost}`)
  await run(
    db,
    sql`delete from edges where account_id = ${other} and kind = 'route' and id in (
    select id from edges where account_id = ${other} and kind = 'route' limit 2)`,
  )
  const { heldBack, floor } = await compare()
  assert.deepEqual([...heldBack.accounts], [[toId('ac', lost), { missing: 31, present: 0 }]])
  assert.match(
    describeHeldBack(heldBack) ?? '',
    /^the database lacks 31 resources of ac_\w+ that edges serve, and has 0, /,
  )
  assert.equal(floor, 0)
  assert.equal((await outbox()).length, 2, 'two routes of the other account')
  await skipGenerations(db)
  assert.equal((await compare()).heldBack.accounts.size, 0, "after 'after-restore' the database is right")
})

test('deletions that came through the outbox are not held back, however many they are', async () => {
  const { compare, outbox, db, accounts } = await bucketWithAccounts()
  const [deleted] = accounts
  const rows = await many<{ id: Uuid; kind: 'https' | 'route' }>(
    db,
    sql`select id, kind from edges where account_id = ${deleted}`,
  )
  const keys = rows.map(
    ({ id, kind }): RecordKey => (kind === 'https' ? `https.${toId('edghts', id)}` : `route.${toId('edghtsrt', id)}`),
  )
  await transaction(db, async (tx) => {
    await run(tx, sql`delete from edges where account_id = ${deleted} and parent_id is not null`)
    await run(tx, sql`delete from edges where account_id = ${deleted}`)
    await writeOutbox(tx, deleted, keys)
  })
  const before = (await outbox()).length
  assert.equal((await compare()).heldBack.accounts.size, 0)
  assert.ok((await outbox()).length > before)
})

test('a policy that lost most of its rules without a change stays as it is; a change of it is sent', async () => {
  const { compare, outbox, publish, db, accounts } = await bucketWithAccounts()
  const [account] = accounts
  const policy = newUuid()
  await run(db, sql`insert into ip_policies (account_id, id) values (${account}, ${policy})`)
  await run(
    db,
    sql`
    insert into ip_policy_rules (account_id, ip_policy_id, id, cidr, action)
    select ${account}, ${policy}, gen_random_uuid(), ('10.' || n || '.0.0/24')::cidr, 'allow' from generate_series(1, 60) n`,
  )
  await compare()
  await publish()
  const key: RecordKey = `policy.${toId('ipp', policy)}`
  await run(db, sql`delete from ip_policy_rules where ip_policy_id = ${policy} and cidr > '10.5.0.0/24'`)
  const { heldBack, healed } = await compare()
  assert.deepEqual([heldBack.policies, healed, await outbox()], [[key], 0, []])
  await transaction(db, (tx) => writeOutbox(tx, account, [key]))
  assert.deepEqual((await compare()).heldBack.policies, [])
})

test('a policy with a rule that expires is sent once, and again when a record of an older version lacks its rules', async () => {
  const { compare, outbox, publish, db, accounts } = await bucketWithAccounts()
  const [account] = accounts
  const policy = newUuid()
  const key: RecordKey = `policy.${toId('ipp', policy)}`
  await run(db, sql`insert into ip_policies (account_id, id) values (${account}, ${policy})`)
  const add = (cidr: string, expiresAt: string | null) =>
    run(
      db,
      sql`insert into ip_policy_rules (account_id, ip_policy_id, id, cidr, action, expires_at)
      values (${account}, ${policy}, ${newUuid()}, ${cidr}, 'allow', ${expiresAt})`,
    )
  await add('192.0.2.1/32', null)
  await compare()
  await publish()
  assert.equal((await compare()).healed, 0)
  await run(db, sql`update ip_policy_rules set expires_at = '2100-01-01' where ip_policy_id = ${policy}`)
  assert.equal((await compare()).healed, 1, 'the same decisions, for a time')
  await publish(true)
  assert.equal((await compare()).healed, 1, 'of an older version')
  assert.deepEqual(
    (await outbox()).map((row) => row.key),
    [key],
  )
  await publish()
  assert.equal((await compare()).healed, 0)
})

test('unsigned and forged entries do not count as resources, and are removed; records signed with unknown keys stay', async () => {
  const { compare, outbox, keys, natsSink, connection, db } = await bucketWith(50)
  await run(
    db,
    sql`insert into signing_keys (public_key, private_key, active) values (${publicKey}, ${privateKey}, true)`,
  )
  const bucket = await new Kvm(jetstream(connection)).open('gatehouse')
  const forger = { keyId: signer.keyId, sign: () => signer.sign('something else') }
  const newKey = () => `tcp.${newId('edgtcp')}` as const
  const stranger = newSigningKey()
  const foreign = newKey()
  for (let i = 0; i < 150; i++) await bucket.put(newKey(), '{"type":"error"}')
  await bucket.put(newKey(), seal({ key: newKey(), generation: 1, value: {} }, forger))
  await bucket.put('anything', 'x')
  const other = createSigner(stranger.publicKey, stranger.privateKey)
  await bucket.put(foreign, seal({ key: foreign, generation: 1, value: {} }, other))
  const { healed, removed } = await compare()
  assert.deepEqual([healed, removed], [51, 152])
  assert.deepEqual((await outbox()).map(({ key }) => key).sort(), [...keys, foreign].sort())
  assert.equal((await natsSink.contents((text) => text)).size, 52, 'with the progress')
})

test('a record whose signature nodes refuse is sent again, although it looks as it should', async () => {
  const { natsSink, connection, db } = await bucketWith(0)
  await run(
    db,
    sql`insert into signing_keys (public_key, private_key, active) values (${publicKey}, ${privateKey}, true)`,
  )
  const account = newUuid()
  await run(db, sql`insert into accounts (id, name) values (${account}, 'a')`)
  await run(db, sql`insert into edges (account_id, id, kind) values (${account}, ${newUuid()}, 'https')`)
  const key = `restrictions.${toId('ac', account)}` as const
  const forger = { keyId: signer.keyId, sign: () => signer.sign('something else') }
  const bucket = await new Kvm(jetstream(connection)).open('gatehouse')
  await bucket.put(key, seal({ key, generation: 1, value: { sets: [] } }, forger))
  const compare = async (suspects: string[]) => {
    await run(db, sql`delete from outbox`)
    await reconcile(
      publisherDatabase(db, systemTiming)(defaultCell),
      natsSink,
      signer.keyId,
      Date.now(),
      new AbortController().signal,
      {
        suspects,
      },
    )
    return (await many<{ key: string }>(db, sql`select key from outbox`)).some((row) => row.key === key)
  }
  assert.deepEqual([await compare([]), await compare([key])], [false, true])
})

test('pieces unused for two passes are deleted from NATS, and return when a policy needs them', async () => {
  const { natsSink, connection } = await bucketWith(0)
  const names = async () =>
    Array.fromAsync(await (await new Kvm(jetstream(connection)).open(defaultChannels.blobs)).keys())
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
