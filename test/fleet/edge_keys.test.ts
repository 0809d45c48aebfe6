import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { many, openPool } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { newNodeKey, nodeKeyFingerprint } from '../../src/distribution/delivery.ts'
import type { EdgeNode } from '../../src/kernel/edge/edge_nodes.ts'
import { defaultCell } from '../../src/operations/placement.ts'
import { currentDeliveryKey, listNodeKeys, noteNodeKeys, sealForNewNodes } from '../../src/publisher/nodes/node_keys.ts'
import { gatehouse } from '../harness/command.ts'
import { newDatabase, secretsBox, secretsKeyFile } from '../harness/control_plane.ts'

const url = await newDatabase()
const db = openPool({ url, poolSize: 2, connectTimeoutMs: 10_000, statementTimeoutMs: 10_000 }, () => {})
after(() => db.end())

const env = { GATEHOUSE_DATABASE_URL: url, GATEHOUSE_SECRETS_KEY_FILE: secretsKeyFile() }
const edgeKeys = (...args: string[]) => gatehouse(['edge-keys', ...args], env)
const keyId = async () => (await currentDeliveryKey(db, defaultCell, secretsBox)).id
/** As a node that has only a password reports it. */
const report = (node: string, nodeKey: string) =>
  noteNodeKeys(db, [{ node, cell: defaultCell.name, nodeKey, live: true } as EdgeNode], 'first')
const accepted = async () => (await listNodeKeys(db)).filter((row) => row.accepted).map((row) => row.node)
/** Who could read what is encrypted from now on. */
const receivers = async () =>
  (
    await many<{ node: string }>(
      db,
      sql`select node from edge_node_keys where delivery_key_id = ${await keyId()} order by node`,
    )
  ).map(({ node }) => node)

test('a node whose key is revoked cannot read what is encrypted later, and the others can', async () => {
  const [stolen, other] = [newNodeKey(), newNodeKey()]
  assert.deepEqual([await report('edge-1', stolen.publicKey), await report('edge-2', other.publicKey)], [[], []])
  assert.equal(await sealForNewNodes(db, defaultCell, secretsBox), 2)
  const before = await keyId()
  const { code, stderr } = await edgeKeys('revoke', 'edge-1')
  assert.equal(code, 0, stderr)
  assert.notEqual(await keyId(), before)
  assert.deepEqual(await receivers(), ['edge-2'])
  assert.equal((await edgeKeys('revoke', 'edge-1')).code, 1)

  // It goes on reporting, with this key and with others.
  await report('edge-1', stolen.publicKey)
  assert.deepEqual(await report('edge-1', newNodeKey().publicKey), ['edge-1'])
  assert.equal(await sealForNewNodes(db, defaultCell, secretsBox), 0)
  assert.deepEqual(await accepted(), ['edge-2'])
  assert.deepEqual(await receivers(), ['edge-2'])
})

test('the key before the accepted one cannot read what is encrypted later', async () => {
  const lost = newNodeKey()
  await report('edge-3', lost.publicKey)
  await sealForNewNodes(db, defaultCell, secretsBox)
  const before = await keyId()
  const next = newNodeKey()
  assert.deepEqual(await report('edge-3', next.publicKey), ['edge-3'])
  const { code, stderr } = await edgeKeys('accept', 'edge-3', nodeKeyFingerprint(next.publicKey))
  assert.equal(code, 0, stderr)
  assert.notEqual(await keyId(), before)
  assert.deepEqual(await receivers(), ['edge-2', 'edge-3'])
  const [row] = (await listNodeKeys(db)).filter(({ node }) => node === 'edge-3')
  assert.deepEqual([row?.accepted, row?.public_key], [true, next.publicKey])
})
