import { type Db, many, one, run } from '../../db/pool.ts'
import { writeSalvaging } from '../../db/salvage.ts'
import { sql } from '../../db/sql.ts'
import { rfc3339 } from '../../kernel/clock.ts'
import type { EdgeNode } from '../../kernel/edge/edge_nodes.ts'
import { deleteOutboxBefore } from '../../operations/outbox.ts'

type EdgeNodeRow = {
  name: string
  cell: string
  version: string
  applied_generation: number
  records: number
  refusals: EdgeNode['refusals']
  started_at: string
  last_seen_at: string
}

/** Lets a control plane that has just started list nodes which have not reported to it yet. */
export async function loadNodes(db: Db): Promise<EdgeNode[]> {
  const rows = await many<EdgeNodeRow>(
    db,
    sql`
    select n.name, c.name as cell, version, applied_generation, records, refusals, started_at, last_seen_at
    from edge_nodes n join cells c on c.id = n.cell_id`,
  )
  return rows.map((row) => ({
    node: row.name,
    cell: row.cell,
    version: row.version,
    applied: row.applied_generation,
    records: row.records,
    refusals: row.refusals,
    startedAt: row.started_at,
    lastSeenAt: Date.parse(row.last_seen_at),
    live: false,
  }))
}

/** Skips a node that cannot be written, so that the others are saved. */
export const saveNodes = (
  db: Db,
  nodes: readonly EdgeNode[],
  onDropped: (node: EdgeNode, error: unknown) => void,
): Promise<void> => writeSalvaging(nodes, (some) => writeNodes(db, some), onDropped)

const writeNodes = (db: Db, nodes: readonly EdgeNode[]): Promise<void> =>
  run(
    db,
    sql`
    insert into edge_nodes (name, cell_id, version, applied_generation, records, refusals, started_at, last_seen_at)
    select n.name, c.id, version, applied_generation, records, refusals, started_at, last_seen_at from unnest(
      ${nodes.map(({ node }) => node)}::text[], ${nodes.map(({ cell }) => cell)}::text[], ${nodes.map(({ version }) => version)}::text[],
      ${nodes.map(({ applied }) => applied)}::bigint[], ${nodes.map(({ records }) => records)}::bigint[],
      ${nodes.map(({ refusals }) => JSON.stringify(refusals))}::json[], ${nodes.map(({ startedAt }) => startedAt)}::timestamptz[],
      ${nodes.map(({ lastSeenAt }) => rfc3339(lastSeenAt))}::timestamptz[]
    ) as n (name, cell, version, applied_generation, records, refusals, started_at, last_seen_at)
      join cells c on c.name = n.cell
    order by 1
    on conflict (name) do update set
      cell_id = excluded.cell_id, version = excluded.version, applied_generation = excluded.applied_generation, records = excluded.records,
      refusals = excluded.refusals, started_at = excluded.started_at, last_seen_at = excluded.last_seen_at
      where edge_nodes.last_seen_at < excluded.last_seen_at`,
  )

const dayMs = 24 * 60 * 60 * 1_000

/** Forgets nodes that were silent for long, and old changes that were sent. */
export async function forgetOld(db: Db, now: number): Promise<void> {
  await run(db, sql`delete from edge_nodes where last_seen_at < ${rfc3339(now - 7 * dayMs)}`)
  const { cursor } = await one<{ cursor: number }>(
    db,
    sql`
    select least((select min(cursor) from publisher_state), (select min(cursor) from wave_state)) as cursor`,
  )
  await deleteOutboxBefore(db, now - dayMs, cursor)
}
