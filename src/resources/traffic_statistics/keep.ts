import { takeBatch } from '../../access/evidence/reported_batches.ts'
import { deleteInBatches } from '../../db/batches.ts'
import { type Db, type DbPool, many, run } from '../../db/pool.ts'
import { type SqlFragment, sql } from '../../db/sql.ts'
import { transaction } from '../../db/transaction.ts'
import type { ReportedTraffic, TrafficCount } from '../../distribution/traffic_report.ts'
import { hourOf, rfc3339 } from '../../kernel/clock.ts'
import { trafficFigures } from '../../kernel/edge/traffic.ts'
import { type Id, toUuid, type Uuid } from '../../kernel/ids.ts'

const hourMs = 60 * 60 * 1_000
/** One hour more than a day, so that a full day is available. */
const minutesKeptForMs = 25 * hourMs
export const trafficDays = 90
/**
 * Rows per account and hour, in addition to one per node. Further counts are stored without edge, route and backend.
 */
export const maxRowsPerHour = 1_000
const latencyShift = 2 ** 40
const none = '00000000-0000-0000-0000-000000000000' as Uuid

type Row = {
  accountId: Uuid
  hour: number
  minute: number
  edgeId: Uuid
  edgeKind: string
  routeId: Uuid
  backendId: Uuid
  backendKind: string
  counts: readonly number[]
  latencies: readonly number[]
}

/** Adds what a node counted, once per batch. Resolves to false if the batch was taken before. */
export const keepTraffic = (
  pool: DbPool,
  node: string,
  { sender, batch, lost, counts }: ReportedTraffic,
  now: number,
  maxRows = maxRowsPerHour,
): Promise<boolean> =>
  transaction(pool, async (tx) => {
    if (!(await takeBatch(tx, sql`traffic_batches`, { node, sender, batch }, now))) return false
    if (lost > 0)
      await run(
        tx,
        sql`
        insert into traffic_losses as l (node, at, requests) values (${node}, ${rfc3339(hourOf(now))}, ${lost})
        on conflict (node, at) do update set requests = l.requests + excluded.requests`,
      )
    const rows = await withinBound(tx, node, await ownedRows(tx, counts), maxRows)
    if (rows.length === 0) return true
    const recent = rows.filter(({ minute }) => minute >= now - minutesKeptForMs)
    await add(tx, sql`traffic_minutes`, node, recent, ({ minute }) => minute)
    await add(tx, sql`traffic_hours`, node, rows, ({ hour }) => hour)
    return true
  })

/**
 * A node may be compromised, or a route deleted meanwhile: counts for resources that the account does not have are
 * stored without details.
 */
async function ownedRows(tx: Db, counts: readonly TrafficCount[]): Promise<Row[]> {
  const uuidOf = (id: string | null) => (id === null ? none : toUuid(id as Id))
  const accounts = counts.map(({ account }) => uuidOf(account))
  const named = (of: (count: TrafficCount) => string | null) =>
    sql`(select distinct * from unnest(${accounts}::uuid[], ${counts.map((count) => uuidOf(of(count)))}::uuid[]) w (account_id, id)) w`
  const owned = await many<{ account_id: Uuid; id: Uuid; parent_id: Uuid | null }>(
    tx,
    sql`
    select e.account_id, e.id, e.parent_id from ${named(({ route, edge }) => route ?? edge)} join edges e using (account_id, id)
    union all select b.account_id, b.id, null from ${named(({ backend }) => backend)} join backends b using (account_id, id)
    union all select a.id, a.id, null from ${named(({ account }) => account)} join accounts a on a.id = w.id`,
  )
  const found = new Map(owned.map((row) => [`${row.account_id} ${row.id}`, row]))
  return counts.flatMap(({ account, edge, route, backend, minute, ...counted }) => {
    const [accountId, edgeId, routeId, backendId] = [account, edge, route, backend].map(uuidOf) as [
      Uuid,
      Uuid,
      Uuid,
      Uuid,
    ]
    const has = (id: Uuid) => found.get(`${accountId} ${id}`)
    if (!has(accountId)) return []
    const row = { accountId, minute, hour: hourOf(minute), ...counted }
    const isOwn = route === null ? has(edgeId) : has(routeId)?.parent_id === edgeId
    if (!isOwn || edge === null) return [withoutPlace(row)]
    return [
      {
        ...row,
        ...{ edgeId, routeId, edgeKind: prefixOf(edge) },
        ...(has(backendId) ? { backendId, backendKind: prefixOf(backend) } : { backendId: none, backendKind: '' }),
      },
    ]
  })
}
const prefixOf = (id: string | null): string => id?.slice(0, id.indexOf('_')) ?? ''

const withoutPlace = (row: Pick<Row, 'accountId' | 'minute' | 'hour' | 'counts' | 'latencies'>): Row => ({
  ...row,
  ...{ edgeId: none, edgeKind: '', routeId: none, backendId: none, backendKind: '' },
})
const hourKey = ({ accountId, hour }: Pick<Row, 'accountId' | 'hour'>): string => `${accountId} ${hour}`
const placeKey = ({ edgeId, routeId, backendId }: Row): string => `${edgeId} ${routeId} ${backendId}`

/** Existing rows are kept; new ones are added while there is room. */
async function withinBound(tx: Db, node: string, rows: readonly Row[], maxRows: number): Promise<Row[]> {
  const wanted = new Map<string, { accountId: Uuid; hour: number; places: Set<string> }>()
  for (const row of rows) {
    const known = wanted.get(hourKey(row)) ?? { accountId: row.accountId, hour: row.hour, places: new Set() }
    wanted.set(hourKey(row), known)
    known.places.add(placeKey(row))
  }
  const hours = [...wanted.values()]
  const counted = await many<{ account_id: Uuid; hour: string; count: number }>(
    tx,
    sql`
    select w.account_id, w.hour, (select count(*) from (select from traffic_hours h
      where h.account_id = w.account_id and h.at = w.hour limit ${maxRows + 1}) found) as count
    from unnest(${hours.map(({ accountId }) => accountId)}::uuid[],
      ${hours.map(({ hour }) => rfc3339(hour))}::timestamptz[]) w (account_id, hour)`,
  )
  for (const { account_id: accountId, hour: at, count } of counted) {
    const hour = Date.parse(at)
    const its = wanted.get(hourKey({ accountId, hour }))
    if (its && count + its.places.size <= maxRows) wanted.delete(hourKey({ accountId, hour }))
    else if (its) its.places = await placesWithin(tx, { accountId, hour, node }, its.places, maxRows - count)
  }
  return rows.map((row) => {
    const bound = wanted.get(hourKey(row))
    return !bound || bound.places.has(placeKey(row)) ? row : withoutPlace(row)
  })
}

type Hour = { accountId: Uuid; hour: number; node: string }
async function placesWithin(tx: Db, { accountId, hour, node }: Hour, places: Set<string>, room: number) {
  const known = new Set(
    (
      await many<{ place: string }>(
        tx,
        sql`
        select concat_ws(' ', edge_id, route_id, backend_id) as place from traffic_hours
        where account_id = ${accountId} and at = ${rfc3339(hour)} and node = ${node}`,
      )
    ).map(({ place }) => place),
  )
  const fresh = [...places].filter((place) => !known.has(place)).slice(0, Math.max(0, room))
  return new Set([...known, ...fresh])
}

const figures = trafficFigures.map((_, index) => index)

async function add(tx: Db, table: SqlFragment, node: string, rows: readonly Row[], at: (row: Row) => number) {
  const encoded = rows.map(({ latencies }) => {
    const pairs = latencies.flatMap((bucket, index) =>
      index % 2 === 0 ? [bucket * latencyShift + (latencies[index + 1] ?? 0)] : [],
    )
    return `{${pairs.join(',')}}`
  })
  const [requests, refused, limited, backend5xx, unreachable, noResponse, timeout, edge, client] = figures.map(
    (index) => rows.map(({ counts }) => counts[index] ?? 0),
  ) as number[][] as [number[], number[], number[], number[], number[], number[], number[], number[], number[]]
  // Sorted: two processes that add to the same rows must lock them in the same order.
  await run(
    tx,
    sql`
    insert into ${table} as t (account_id, at, node, edge_id, route_id, backend_id, edge_kind, backend_kind,
      requests, refused, limited, backend_5xx, unreachable, no_response, timeout, edge, client, latencies)
    select account_id, at, ${node}, edge_id, route_id, backend_id, min(edge_kind), min(backend_kind),
      sum(requests), sum(refused), sum(limited), sum(backend_5xx), sum(unreachable), sum(no_response), sum(timeout),
      sum(edge), sum(client), sum_latencies(latencies::bigint[])
    from unnest(
      ${rows.map(({ accountId }) => accountId)}::uuid[], ${rows.map((row) => rfc3339(at(row)))}::timestamptz[],
      ${rows.map(({ edgeId }) => edgeId)}::uuid[], ${rows.map(({ routeId }) => routeId)}::uuid[],
      ${rows.map(({ backendId }) => backendId)}::uuid[], ${rows.map(({ edgeKind }) => edgeKind)}::text[],
      ${rows.map(({ backendKind }) => backendKind)}::text[], ${requests}::bigint[], ${refused}::bigint[],
      ${limited}::bigint[], ${backend5xx}::bigint[], ${unreachable}::bigint[], ${noResponse}::bigint[],
      ${timeout}::bigint[], ${edge}::bigint[], ${client}::bigint[], ${encoded}::text[]
    ) as s (account_id, at, edge_id, route_id, backend_id, edge_kind, backend_kind, requests, refused, limited,
      backend_5xx, unreachable, no_response, timeout, edge, client, latencies)
    group by account_id, at, edge_id, route_id, backend_id
    order by account_id, at, edge_id, route_id, backend_id
    on conflict (account_id, at, node, edge_id, route_id, backend_id) do update set
      requests = t.requests + excluded.requests, refused = t.refused + excluded.refused,
      limited = t.limited + excluded.limited, backend_5xx = t.backend_5xx + excluded.backend_5xx,
      unreachable = t.unreachable + excluded.unreachable, no_response = t.no_response + excluded.no_response,
      timeout = t.timeout + excluded.timeout, edge = t.edge + excluded.edge, client = t.client + excluded.client,
      latencies = add_latencies(t.latencies, excluded.latencies)`,
  )
}

export async function deleteOldTraffic(db: Db, now: number): Promise<void> {
  const oldest = rfc3339(now - trafficDays * 24 * hourMs)
  await deleteInBatches(db, sql`traffic_minutes`, sql`at < ${rfc3339(now - minutesKeptForMs)}`)
  await deleteInBatches(db, sql`traffic_hours`, sql`at < ${oldest}`)
  await run(db, sql`delete from traffic_losses where at < ${oldest}`)
  await run(db, sql`delete from traffic_batches where received_at < ${oldest}`)
}
