import { type Db, many, maybeOne, one, run } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { type NatsNode, nodeJwtLifeMs } from './nats_accounts.ts'

export type FleetNode = NatsNode & {
  readonly cellId: number
  readonly user: string
  readonly nodeKey: string
  readonly joinedAt: string
  readonly revokedAt: string | null
}

type Row = {
  nats_account: string
  name: string
  cell: string
  cell_id: number
  wave: number
  nats_user: string
  cell_account: string | null
  node_key: string
  joined_at: string
  revoked_at: string | null
}
const columns = sql`
  nats_account, name, cell_id, (select c.name from cells c where c.id = cell_id) as cell, wave, nats_user, node_key, joined_at, revoked_at,
  (select c.account from cell_accounts c where c.cell_id = fleet_nodes.cell_id) as cell_account`
const toNode = (row: Row): FleetNode => ({
  account: row.nats_account,
  name: row.name,
  cell: row.cell,
  cellId: row.cell_id,
  wave: row.wave,
  user: row.nats_user,
  cellAccount: row.cell_account,
  nodeKey: row.node_key,
  joinedAt: row.joined_at,
  revokedAt: row.revoked_at,
})

export const listFleetNodes = async (db: Db): Promise<FleetNode[]> =>
  (await many<Row>(db, sql`select ${columns} from fleet_nodes order by name, joined_at`)).map(toNode)

/** Every node that NATS must know: joined nodes, and revoked ones while one of their JWTs may be valid. */
export const nodesForNats = async (db: Db): Promise<FleetNode[]> =>
  (
    await many<Row>(
      db,
      sql`
      select ${columns} from fleet_nodes
      where revoked_at is null or revoked_at > now() - ${2 * nodeJwtLifeMs} * interval '1 millisecond'`,
    )
  ).map(toNode)

/**
 * Changes with each join and revocation, and when a cell gets or loses its account. Every process polls it every other
 * second.
 */
export async function fleetVersion(db: Db): Promise<string> {
  const counts = await one<{ nodes: number; revoked: number; accounts: number; closed: number }>(
    db,
    sql`
    select count(*) as nodes, count(revoked_at) as revoked, (select count(*) from cell_accounts) as accounts,
      (select count(*) from cell_accounts where cell_id is null) as closed
    from fleet_nodes`,
  )
  return Object.values(counts).join(' ')
}

export async function findFleetNode(db: Db, name: string): Promise<FleetNode | undefined> {
  const row = await maybeOne<Row>(
    db,
    sql`select ${columns} from fleet_nodes where name = ${name} and revoked_at is null`,
  )
  return row && toNode(row)
}

/** Resolves to false if another node has the name. */
export async function insertFleetNode(
  tx: Db,
  { account, name, cellId, wave, user, nodeKey }: Omit<FleetNode, 'cell' | 'cellAccount' | 'joinedAt' | 'revokedAt'>,
): Promise<boolean> {
  const inserted = await maybeOne(
    tx,
    sql`
    insert into fleet_nodes (nats_account, name, cell_id, wave, nats_user, node_key)
    values (${account}, ${name}, ${cellId}, ${wave}, ${user}, ${nodeKey})
    on conflict (name) where revoked_at is null do nothing returning name`,
  )
  return inserted !== undefined
}

/** Resolves to undefined if no such node has joined. */
export async function setRevoked(tx: Db, name: string): Promise<FleetNode | undefined> {
  const row = await maybeOne<Row>(
    tx,
    sql`update fleet_nodes set revoked_at = now() where name = ${name} and revoked_at is null returning ${columns}`,
  )
  return row && toNode(row)
}

export type FleetEvent = {
  readonly operation:
    | 'invited'
    | 'joined'
    | 'join_refused'
    | 'revoked'
    | 'operator_created'
    | 'cell_created'
    | 'cell_changed'
    | 'cell_deleted'
    | 'cell_linked'
    | 'cell_unlinked'
    | 'account_placed'
    | 'proxy_changed'
    | 'emergency_order'
    | 'wave_added'
    | 'rollout_decided'
  readonly node?: string | undefined
  readonly sourceIp?: string | undefined
  readonly detail?: string
}

export const recordFleetEvent = (db: Db, { operation, node, sourceIp, detail }: FleetEvent): Promise<void> =>
  run(
    db,
    sql`
    insert into fleet_events (operation, node, source_ip, detail)
    values (${operation}, ${node ?? null}, ${sourceIp ?? null}, ${detail ?? null})`,
  )

export const latestFleetEvents = (db: Db, limit: number) =>
  many<{ at: string; operation: string; node: string | null; source_ip: string | null; detail: string | null }>(
    db,
    sql`select at, operation, node, host(source_ip) as source_ip, detail from fleet_events order by id desc limit ${limit}`,
  )
