// What a deleted cell leaves behind: nothing, and nothing that a new cell of its name would believe.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import { Kvm } from '@nats-io/kv'
import { startNats } from '../../dev/nats.ts'
import { createCell, deleteCell } from '../../src/commands/cells/cells.ts'
import { place } from '../../src/commands/cells/placement.ts'
import { channelsOf, progressKey } from '../../src/distribution/channels.ts'
import { toUuid } from '../../src/kernel/ids.ts'
import { findCell } from '../../src/operations/placement.ts'
import { currentDeliveryKey } from '../../src/publisher/nodes/node_keys.ts'
import { addSigningKey } from '../../src/publisher/signing_keys.ts'
import { secretsBox, startControlPlane } from '../harness/control_plane.ts'
import { make } from '../harness/fixtures.ts'
import { connectAsControlPlane } from '../harness/nats.ts'
import { poll } from '../harness/poll.ts'

const nats = await startNats()
after(() => nats.stop())
const create = (db: Parameters<typeof createCell>[0]) =>
  createCell(db, { name: 'eu', isDefault: false, confirmed: false })
const plane = await startControlPlane(
  { after },
  {
    env: nats.controlPlane,
    async prepare(db) {
      await create(db)
      await addSigningKey(db, secretsBox)
    },
  },
)
const control = await connectAsControlPlane({ after }, nats)
const { streams } = await jetstreamManager(control)
const { records, blobs } = channelsOf('eu')
const names = async () => (await Array.fromAsync(streams.names())).filter((name) => name.includes('_cell_')).sort()
const textOf = async (key: string) => (await (await new Kvm(jetstream(control)).open(records)).get(key))?.string()
const deliveryKey = async () => {
  const cell = (await findCell(plane.db, 'eu')) ?? assert.fail()
  return currentDeliveryKey(plane.db, cell, secretsBox)
}

test('the buckets of a deleted cell are deleted, and a new cell of its name has other contents and another key', async () => {
  const account = await plane.newAccount()
  const { id } = await make(account, '/backends/static', { address: 'a.example:80' })
  const placing = (...cells: string[]) =>
    place(plane.db, { id: toUuid(account.accountId as `ac_${string}`), name: 'it' }, cells, false)
  await placing('eu')
  await poll(() => textOf(`backend.${id}`))
  const stale = await poll(() => textOf(progressKey))
  const oldKey = await deliveryKey()
  await placing()
  await deleteCell(plane.db, 'eu')
  await poll(names, (found) => found.length === 0)

  // As if no process had noticed: signed records of the old cell, which say that they are all there is.
  const left = await new Kvm(jetstream(control)).create(records, { history: 1 })
  await left.put(progressKey, `${stale}`)
  await left.put(`backend.${id}`, 'left over')
  const { created } = await streams.info(`KV_${records}`)
  await create(plane.db)
  await poll(names, (found) => found.join() === [`KV_${records}`, `KV_${blobs}`].sort().join())
  await poll(
    async () => (await textOf(progressKey)) ?? '',
    (text) => text !== '' && text !== stale,
  )
  assert.notEqual((await streams.info(`KV_${records}`)).created, created)
  assert.equal(await textOf(`backend.${id}`), undefined)
  assert.notEqual((await deliveryKey()).id, oldKey.id)
})
