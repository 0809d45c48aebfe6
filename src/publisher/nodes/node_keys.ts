import { type Db, type DbPool, many, maybeOne, one, run } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { transaction } from '../../db/transaction.ts'
import { type DeliveryKey, deliveryKey, nodeKeyFingerprint, sealForNode } from '../../distribution/delivery.ts'
import type { RecipientRecord, RecordKey } from '../../distribution/records.ts'
import type { SecretsBox } from '../../kernel/crypto/secrets_box.ts'
import type { EdgeNode } from '../../kernel/edge/edge_nodes.ts'
import { firstUuidOf, newUuid, toId, type Uuid } from '../../kernel/ids.ts'
import { writeOutbox, writeOutboxOfMany } from '../../operations/outbox.ts'
import { type Cell, defaultCell, isPlaced } from '../../operations/placement.ts'
import { type Compiler, ids } from '../records/changed.ts'

/**
 * `first`: the first key that a node reports is accepted, and every other key waits for the operator. `approved`: all
 * keys wait. NATS lets a node report only under its own name, but the operator of NATS could invent a node.
 */
export type NodeKeyTrust = 'first' | 'approved'

type NodeKeyRow = {
  node: string
  accepted: boolean
  id: Uuid
  public_key: string
  first_seen_at: string
  cell_id: number
}

/** Account of outbox rows about nodes, which belong to no account. */
export const systemAccountId = firstUuidOf(0)

/**
 * The delivery key of a cell. It changes with the operator's key and when a node of the cell is revoked; every
 * certificate record is then encrypted again.
 */
export async function currentDeliveryKey(db: Db, cell: Cell, box: SecretsBox): Promise<DeliveryKey> {
  const { epoch } = await one<{ epoch: number }>(db, sql`select epoch from delivery_key where cell_id = ${cell.id}`)
  return deliveryKeyOf(box, cell, epoch)
}

function deliveryKeyOf(box: SecretsBox, { id, name }: Cell, epoch: number): DeliveryKey {
  const to = id === defaultCell.id ? 'delivery to edge nodes' : `delivery to edge nodes of the cell ${name}`
  return deliveryKey(box.derive(epoch === 0 ? to : `${to} ${epoch}`))
}

const recipientKey = (id: Uuid): RecordKey => `recipient.${toId('enk', id)}`
const certificateKey = (id: Uuid): RecordKey => `certificate.${toId('cert', id)}`

/**
 * Stores keys that nodes report, and accepts the first one of each node if `trust` allows that. Resolves to the nodes
 * whose keys wait.
 */
export async function noteNodeKeys(pool: DbPool, nodes: readonly EdgeNode[], trust: NodeKeyTrust): Promise<string[]> {
  const [rows, joined] = [await listNodeKeys(pool), await listJoinedKeys(pool)]
  const waiting: string[] = []
  for (const { node, cell, nodeKey, live } of nodes) {
    if (!live || nodeKey === undefined) continue
    const own = joined.filter(({ name }) => name === node)
    // A revoked node counts as live until its last report is ten seconds old.
    if (own.some(({ node_key, revoked }) => revoked && node_key === nodeKey)) continue
    const [accepted, other] = [true, false].map((is) => rows.find((row) => row.node === node && row.accepted === is))
    if (accepted?.public_key === nodeKey || other?.public_key === nodeKey) continue
    // A joining node's key is accepted at the join, and no other for its name. A revoked key waits.
    const isTrusted = trust === 'first' && !accepted && !other && own.length === 0
    if (!isTrusted) waiting.push(node)
    await run(
      pool,
      sql`
      insert into edge_node_keys (node, accepted, id, public_key, cell_id)
      select ${node}, ${isTrusted}, ${newUuid()}, ${nodeKey}, id from cells where name = ${cell}
      on conflict (node, accepted) do update
        set id = excluded.id, public_key = excluded.public_key, cell_id = excluded.cell_id, first_seen_at = now(),
          sealed = null, delivery_key_id = null
        where not edge_node_keys.accepted`,
    )
  }
  return waiting
}

const listJoinedKeys = (db: Db) =>
  many<{ name: string; node_key: string; revoked: boolean }>(
    db,
    sql`select name, node_key, revoked_at is not null as revoked from fleet_nodes`,
  )

export const listNodeKeys = (db: Db) =>
  many<NodeKeyRow>(
    db,
    sql`select node, accepted, id, public_key, first_seen_at, cell_id from edge_node_keys order by node, accepted desc`,
  )

/** Encrypts the cell's delivery key to each accepted node that lacks it. */
export async function sealForNewNodes(pool: DbPool, cell: Cell, box: SecretsBox): Promise<number> {
  const key = await currentDeliveryKey(pool, cell, box)
  const rows = await many<{ id: Uuid; public_key: string }>(
    pool,
    sql`
    select id, public_key from edge_node_keys
    where accepted and cell_id = ${cell.id} and delivery_key_id is distinct from ${key.id} order by id limit 1000`,
  )
  for (const { id, public_key } of rows)
    await transaction(pool, async (tx) => {
      await seal(tx, key, id, public_key)
      await writeOutbox(tx, systemAccountId, [recipientKey(id)], cell)
    })
  return rows.length
}

const seal = (tx: Db, key: DeliveryKey, id: Uuid, publicKey: string): Promise<void> =>
  run(
    tx,
    sql`update edge_node_keys set sealed = ${sealForNode(key, publicKey)}, delivery_key_id = ${key.id} where id = ${id}`,
  )

/**
 * After a revocation, the other nodes of the cell get a new delivery key, and every private key encrypted with it. All
 * of it has one generation, so that no node has the new records without the key, or the key without the records.
 */
export async function replaceDeliveryKey(tx: Db, cell: Cell, box: SecretsBox): Promise<void> {
  const { epoch } = await one<{ epoch: number }>(
    tx,
    sql`update delivery_key set epoch = epoch + 1 where cell_id = ${cell.id} returning epoch`,
  )
  const key = deliveryKeyOf(box, cell, epoch)
  const nodes = (await listNodeKeys(tx)).filter(({ accepted, cell_id }) => accepted && cell_id === cell.id)
  for (const { id, public_key } of nodes) await seal(tx, key, id, public_key)
  const certificates = await many<{ account_id: Uuid; id: Uuid }>(
    tx,
    sql`
    select distinct account_id, certificate_id as id from reserved_domains
    where certificate_id is not null and ${isPlaced(sql`account_id`, cell)}`,
  )
  await writeOutboxOfMany(tx, cell, [
    ...nodes.map(({ id }) => ({ accountId: systemAccountId, key: recipientKey(id) })),
    ...certificates.map(({ account_id, id }) => ({ accountId: account_id, key: certificateKey(id) })),
  ])
}

/**
 * An earlier accepted key of the node may be in other hands, so the cell gets a new delivery key. Resolves to false if
 * no key with this fingerprint waits for the node.
 */
export async function acceptNodeKey(tx: Db, node: string, fingerprint: string, box: SecretsBox): Promise<boolean> {
  const waiting = (await listNodeKeys(tx)).find(
    (row) => row.node === node && !row.accepted && nodeKeyFingerprint(row.public_key) === fingerprint,
  )
  if (!waiting) return false
  const replaced = await removeNodeKey(tx, node)
  await run(tx, sql`update edge_node_keys set accepted = true where id = ${waiting.id}`)
  if (replaced) await replaceDeliveryKey(tx, replaced.cell, box)
  return true
}

/**
 * The key waits for the operator from now on. The node may continue to report it, and a node's first key could otherwise
 * be accepted without approval. Its cell gets a new delivery key. Resolves to false if no key was accepted.
 */
export async function revokeNodeKey(tx: Db, node: string, box: SecretsBox): Promise<boolean> {
  const revoked = await removeNodeKey(tx, node)
  if (!revoked) return false
  await run(
    tx,
    sql`
    insert into edge_node_keys (node, accepted, id, public_key, cell_id)
    values (${node}, false, ${newUuid()}, ${revoked.publicKey}, ${revoked.cell.id})
    on conflict do nothing`,
  )
  await replaceDeliveryKey(tx, revoked.cell, box)
  return true
}

/** Removes the accepted key: from the next record on, the node gets nothing that this key could decrypt. */
export async function removeNodeKey(tx: Db, node: string): Promise<{ publicKey: string; cell: Cell } | undefined> {
  const gone = await maybeOne<{ id: Uuid; public_key: string; cell_id: number; cell: string }>(
    tx,
    sql`
    delete from edge_node_keys using cells
    where node = ${node} and accepted and cells.id = cell_id
    returning edge_node_keys.id, public_key, cell_id, cells.name as cell`,
  )
  if (!gone) return undefined
  const cell = { id: gone.cell_id, name: gone.cell }
  await writeOutbox(tx, systemAccountId, [recipientKey(gone.id)], cell)
  return { publicKey: gone.public_key, cell }
}

/** A joining node presents its key together with a token of the operator, so it needs no approval. */
export async function joinNodeKey(tx: Db, cell: Cell, node: string, publicKey: string): Promise<void> {
  await removeNodeKey(tx, node)
  await run(tx, sql`delete from edge_node_keys where node = ${node}`)
  await run(
    tx,
    sql`
    insert into edge_node_keys (node, accepted, id, public_key, cell_id)
    values (${node}, true, ${newUuid()}, ${publicKey}, ${cell.id})`,
  )
}

export const compileRecipients: Compiler = async (db, changed, _now, { cell }) => {
  const rows = await many<{ id: Uuid; node: string; public_key: string; sealed: string; delivery_key_id: string }>(
    db,
    sql`
    select id, node, public_key, sealed, delivery_key_id from edge_node_keys
    where accepted and sealed is not null and cell_id = ${cell.id} and id = any(${ids(changed)})`,
  )
  return new Map(
    rows.map(({ id, node, public_key, sealed, delivery_key_id }) => {
      const value: RecipientRecord = { node, public_key, key_id: delivery_key_id, sealed }
      return [id, { value }]
    }),
  )
}
