// NATS acknowledges writes before they are synced to disk, and a power failure takes some. A copy of its folder stands in for it.

import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { startNats } from '../../dev/nats.ts'
import { defaultChannels } from '../../src/distribution/channels.ts'
import { createSigner, newSigningKey, seal } from '../../src/distribution/signature.ts'
import { newId } from '../../src/kernel/ids.ts'
import { bucketServer } from '../../src/publisher/bucket/bucket_server.ts'
import { openNatsSink } from '../../src/publisher/bucket/nats_sink.ts'
import type { LastWrite } from '../../src/publisher/database.ts'
import { connectAsControlPlane } from '../harness/nats.ts'
import { poll } from '../harness/poll.ts'

const { publicKey, privateKey } = newSigningKey()
const signer = createSigner(publicKey, privateKey)

async function start(t: TestContext) {
  const nats = await startNats()
  t.after(() => nats.stop())
  const connection = await connectAsControlPlane(t, nats)
  const open = (lastWrite?: LastWrite) =>
    openNatsSink(connection, bucketServer(connection, 1), defaultChannels, lastWrite)
  return { nats, open, connection }
}
type Sink = Awaited<ReturnType<typeof openNatsSink>>

/** Resolves to the revision after a record and a progress. */
function write(sink: Sink): Promise<number> {
  const key = `backend.${newId('bkdst')}`
  const records = [seal({ key, generation: 1, value: null }, signer)]
  return sink.keep({ progress: seal({ after: 0, settled: 1 }, signer), records }, [key])
}

test('a bucket that ends before the last acknowledged write is replaced when it is opened', async (t) => {
  const { nats, open } = await start(t)
  const sink = await open()
  await write(sink)
  await nats.copy()
  const revision = await poll(() => write(sink).catch(() => 0))
  const created = sink.bucketCreated
  assert.equal((await open({ created, revision })).bucketCreated, created, 'it has everything')
  assert.equal(
    (await open({ created: 'another', revision: 1_000 })).bucketCreated,
    created,
    'another bucket got further',
  )
  await nats.restart({ toCopy: true })
  const replaced = await poll(() => open({ created, revision }).catch(() => undefined))
  assert.notEqual(replaced?.bucketCreated, created)
  assert.equal((await replaced?.contents(() => 1))?.size, 0)
})

test('lost writes are noticed by the next publisher although as many have followed from one that was killed', async (t) => {
  const { nats, open } = await start(t)
  const sink = await open()
  await write(sink)
  await nats.copy()
  const revision = await poll(() => write(sink).catch(() => 0))
  const created = sink.bucketCreated
  await nats.restart({ toCopy: true })
  // Written by another process that did not know, and ended before its progress.
  const blind = await poll(() => open().catch(() => undefined))
  const keys = [1, 2, 3].map(() => `backend.${newId('bkdst')}`)
  const records = [...keys.map((key) => seal({ key, generation: 2, value: null }, signer)), 'x'.repeat(2 << 20)]
  await assert.rejects(async () => blind?.keep({ progress: '', records }, [...keys, 'too_large']))
  assert.notEqual((await open({ created, revision })).bucketCreated, created)
})

test('a bucket that loses writes while it is open is noticed, also once as many have followed', async (t) => {
  for (const later of [0, 5]) {
    const { nats, open } = await start(t)
    const sink = await open()
    await write(sink)
    await nats.copy()
    await poll(() => write(sink).catch(() => 0))
    assert.equal(await sink.isIntact(), true)
    await nats.restart({ toCopy: true })
    await poll(() => sink.contents(() => 1).catch(() => undefined))
    for (let time = 0; time < later; time++) await assert.rejects(() => write(sink), /NATS has lost writes/)
    assert.equal(await sink.isIntact(), false)
    const next = await open()
    assert.notEqual(next.bucketCreated, sink.bucketCreated)
    assert.ok(await write(next))
  }
})

/** A bucket with many records. */
async function largeBucket(t: TestContext) {
  const { open, connection } = await start(t)
  const sink = await open()
  const keys = Array.from({ length: 2_000 }, () => `backend.${newId('bkdst')}`)
  const records = keys.map(() => 'a record'.padEnd(1_000))
  await sink.keep({ progress: seal({ after: 0, settled: 1 }, signer), records }, keys)
  return { sink, connection, size: keys.length + 1 }
}

test('a large bucket is read in slices, between which everything else has its turn', async (t) => {
  const { sink, size } = await largeBucket(t)
  let [isOver, inTurn, most] = [false, 0, 0]
  const turn = () => {
    most = Math.max(most, inTurn)
    inTurn = 0
    if (!isOver) setImmediate(turn)
  }
  turn()
  assert.equal((await sink.contents(() => inTurn++)).size, size)
  isOver = true
  assert.ok(most <= 100, `${most} records in one turn`)
})

test('a bucket is not taken for a smaller one when the connection ends while it is read', async (t) => {
  const { sink, connection } = await largeBucket(t)
  await assert.rejects(
    sink.contents(() => void connection.close()),
    /connection/,
  )
})
