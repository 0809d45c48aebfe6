import { deleteInBatches } from '../../db/batches.ts'
import { type Db, many, run } from '../../db/pool.ts'
import { nothing, type SqlFragment, sql } from '../../db/sql.ts'
import type { Caller } from '../../identity/caller.ts'
import { rfc3339 } from '../../kernel/clock.ts'
import type { BackendId } from '../../kernel/edge/backends.ts'
import type { UpstreamStatus } from '../../kernel/edge/edge_nodes.ts'
import { toUuid, type Uuid } from '../../kernel/ids.ts'

/** A node's report about one address of a backend; `cleared` if it no longer knows the address. */
export type ReportedHealth = {
  backendId: Uuid
  node: string
  address: string
  port: number
  status: UpstreamStatus | 'cleared'
  reason: string | null
  since: string
  lastFailedAt: string | null
  reportedAt: number
}
export type HealthRow = {
  backend_id: Uuid
  node: string
  address: string
  port: number
  status: UpstreamStatus
  reason: string | null
  since: string
  last_failed_at: string | null
  reported_at: string
}

/**
 * Nodes repeat every state within seven minutes. Older reports are from nodes that are gone or no longer use the
 * address.
 */
export const healthKnownForMs = 15 * 60_000
/** An unchanged state is rewritten at most this often. */
const rewriteAfter = sql`interval '2 minutes'`
/** More addresses than a name resolves to. A compromised node must not fill the table. */
export const maxAddressesPerNode = 64
const maxRows = 5_000

const reported = (rows: readonly ReportedHealth[]): SqlFragment => sql`
  unnest(${rows.map(({ backendId }) => backendId)}::uuid[], ${rows.map(({ node }) => node)}::text[],
    ${rows.map(({ address }) => address)}::inet[], ${rows.map(({ port }) => port)}::int[],
    ${rows.map(({ status }) => status)}::text[], ${rows.map(({ reason }) => reason)}::text[],
    ${rows.map(({ since }) => since)}::timestamptz[], ${rows.map(({ lastFailedAt }) => lastFailedAt)}::timestamptz[],
    ${rows.map(({ reportedAt }) => rfc3339(reportedAt))}::timestamptz[]
  ) as s (backend_id, node, address, port, status, reason, since, last_failed_at, reported_at)
  join backends b on b.id = s.backend_id and b.kind = 'static'`

/** Skips missing backends. Each address may occur only once. */
export async function writeHealth(db: Db, rows: readonly ReportedHealth[]): Promise<void> {
  const { true: cleared = [], false: known = [] } = Object.groupBy(
    rows,
    ({ status }) => `${status === 'cleared'}` as const,
  )
  if (cleared.length)
    await run(
      db,
      sql`
      delete from backend_health h using ${reported(cleared)}
      where h.account_id = b.account_id and h.backend_id = s.backend_id and h.node = s.node and h.address = s.address
        and h.port = s.port`,
    )
  if (known.length === 0) return
  await run(
    db,
    // Sorted, and the backend is locked before its rows, so that this cannot deadlock with deleting a backend.
    sql`
    insert into backend_health as h
      (account_id, backend_id, node, address, port, status, reason, since, last_failed_at, reported_at)
    select b.account_id, s.* from ${reported(known)}
    where exists (
        select from backend_health k
        where k.account_id = b.account_id and k.backend_id = b.id and k.node = s.node and k.address = s.address
          and k.port = s.port
      ) or ${maxAddressesPerNode} > (
        select count(*) from backend_health k
        where k.account_id = b.account_id and k.backend_id = b.id and k.node = s.node
      )
    order by 1, 2, 3, 4, 5
    for key share of b
    on conflict (account_id, backend_id, node, address, port) do update set
      status = excluded.status, reason = excluded.reason, since = excluded.since,
      last_failed_at = excluded.last_failed_at, reported_at = excluded.reported_at
    where (h.status, h.reason, h.since) is distinct from (excluded.status, excluded.reason, excluded.since)
      or h.reported_at < excluded.reported_at - ${rewriteAfter}`,
  )
}

/** A restarted node no longer knows what it reported before. */
export const deleteHealthOfNode = (db: Db, node: string, before: string): Promise<number> =>
  deleteInBatches(db, sql`backend_health`, sql`node = ${node} and reported_at < ${before}`)

export const deleteHealthBefore = (db: Db, moment: number): Promise<number> =>
  deleteInBatches(db, sql`backend_health`, sql`reported_at < ${rfc3339(moment)}`)

/** Health of the backend itself, or of a group's members in order. */
export const listHealth = (db: Db, { accountId }: Pick<Caller, 'accountId'>, id: BackendId, since: number) =>
  many<HealthRow>(
    db,
    sql`
    with wanted (id, position) as (
      select ${toUuid(id)}::uuid, 0
      union all select member_id, position from backend_members
        where account_id = ${accountId} and group_id = ${toUuid(id)}
    )
    select h.backend_id, h.node, host(h.address) as address, h.port, h.status, h.reason, h.since, h.last_failed_at,
      h.reported_at
    from wanted w join backend_health h on h.account_id = ${accountId} and h.backend_id = w.id
    where h.reported_at >= ${rfc3339(since)}
    order by w.position, h.backend_id, h.node, h.address, h.port
    limit ${maxRows}`,
  )

type Wanted = { status: UpstreamStatus | undefined; limit: number }

/** Health of all backends of the account, worst first. */
export const listHealthOfAccount = (
  db: Db,
  { accountId }: Pick<Caller, 'accountId'>,
  since: number,
  { status, limit }: Wanted,
) =>
  many<HealthRow & { total: number }>(
    db,
    sql`
    select backend_id, node, host(address) as address, port, status, reason, since, last_failed_at, reported_at,
      count(*) over () as total
    from backend_health
    where account_id = ${accountId} and reported_at >= ${rfc3339(since)}
      ${status ? sql`and status = ${status}` : nothing}
    order by status = 'up', status = 'failing', since desc, backend_id, node, backend_health.address, port
    limit ${limit}`,
  )
