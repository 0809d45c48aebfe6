import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { startNats } from '../../dev/nats.ts'
import { many, openPool } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { connectNats } from '../../src/distribution/channels.ts'
import { createSigner, newSigningKey, seal } from '../../src/distribution/signature.ts'
import { newId } from '../../src/kernel/ids.ts'
import { openOutlet } from '../../src/publisher/outlet.ts'
import { reconcile } from '../../src/publisher/reconcile.ts'
import { newDatabase } from '../harness/control_plane.ts'

const nats = await startNats()
after(() => nats.stop())
const { publicKey, privateKey } = newSigningKey()
const signer = createSigner(publicKey, privateKey)

/** A bucket with this many backends, and a database that knows none of them. */
async function bucketWith(count: number) {
  const connection = await connectNats({
    servers: [nats.url],
    name: 'test',
    user: 'control-plane',
    password: 'control-plane',
    signal: new AbortController().signal,
  })
  after(() => connection.close())
  const outlet = await openOutlet(connection, 1)
  const keys = Array.from({ length: count }, () => `backend.${newId('bkdst')}` as const)
  const value = { host: 'a.example', port: 1, tls: false }
  const records = keys.map((key) => seal({ key, generation: 1, value }, signer))
  await outlet.keep({ progress: seal({ after: 0, settled: 1 }, signer), records }, keys)
  const db = openPool(
    { url: await newDatabase(), poolSize: 2, connectTimeoutMs: 10_000, statementTimeoutMs: 60_000 },
    () => {},
  )
  after(() => db.end())
  const compare = () => reconcile(db, outlet, signer.keyId, Date.now(), new AbortController().signal)
  const outbox = () => many<{ key: string }>(db, sql`select key from outbox`)
  return { compare, outbox, keys }
}

test('a few records that the database does not know any more are taken away from the edges', async () => {
  const { compare, outbox, keys } = await bucketWith(50)
  assert.equal(await compare(), 50)
  assert.deepEqual((await outbox()).map(({ key }) => key).sort(), [...keys].sort())
})

test('a database that knows nothing of what edges serve takes nothing away from them', async () => {
  const { compare, outbox } = await bucketWith(101)
  await assert.rejects(compare, /is it the right one\? Nothing was taken away/)
  assert.deepEqual(await outbox(), [])
})
