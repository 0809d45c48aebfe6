import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { many, openPool } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { newNodeKey } from '../../src/distribution/delivery.ts'
import { defaultCell } from '../../src/operations/placement.ts'
import { currentDeliveryKey, joinNodeKey, listNodeKeys, sealForNewNodes } from '../../src/publisher/nodes/node_keys.ts'
import { gatehouse } from '../harness/command.ts'
import { newDatabase, secretsBox, secretsKeyFile } from '../harness/control_plane.ts'

const url = await newDatabase()
const db = openPool({ url, poolSize: 2, connectTimeoutMs: 10_000, statementTimeoutMs: 10_000 }, () => {})
after(() => db.end())

test('a node whose key is revoked cannot read what is encrypted later, and the others can', async () => {
  for (const node of ['edge-1', 'edge-2']) await joinNodeKey(db, defaultCell, node, newNodeKey().publicKey)
  assert.equal(await sealForNewNodes(db, defaultCell, secretsBox), 2)
  const before = await currentDeliveryKey(db, defaultCell, secretsBox)
  const env = { GATEHOUSE_DATABASE_URL: url, GATEHOUSE_SECRETS_KEY_FILE: secretsKeyFile() }
  const { code, stderr } = await gatehouse(['edge-keys', 'revoke', 'edge-1'], env)
  assert.equal(code, 0, stderr)
  const now = await currentDeliveryKey(db, defaultCell, secretsBox)
  assert.notEqual(now.id, before.id)
  assert.deepEqual(
    (await listNodeKeys(db)).map(({ node }) => node),
    ['edge-2'],
  )
  const sealed = await many(db, sql`select from edge_node_keys where delivery_key_id = ${now.id}`)
  assert.equal(sealed.length, 1)
  assert.equal((await gatehouse(['edge-keys', 'revoke', 'edge-1'], env)).code, 1)
})
