import { type Db, many, maybeOne, one } from '../../db/pool.ts'
import { nothing, sql } from '../../db/sql.ts'
import type { EdgeRequest } from '../../distribution/requests.ts'
import type { Static } from '../../http/wire.ts'
import type { Caller } from '../../identity/caller.ts'
import { rfc3339 } from '../../kernel/clock.ts'
import { firstUuidOf, toId, toUuid, type Uuid } from '../../kernel/ids.ts'
import { canonicalAddress } from '../../kernel/ip/address.ts'
import { canonicalCidr } from '../../kernel/ip/canonical_cidr.ts'
import { rowsToFetch } from '../../kernel/paging.ts'
import { parseRfc3339 } from '../../kernel/time.ts'
import type { RequestQuery } from './schema.ts'

type Query = Static<typeof RequestQuery>
type RequestRow = {
  account_id: Uuid
  id: Uuid
  created_at: string
  node: string
  edge_kind: 'tcp' | 'https'
  edge_id: Uuid
  route_id: Uuid | null
  source_ip: string
  protocol: EdgeRequest['protocol']
  method: string | null
  host: string | null
  path: string | null
  status_code: number | null
  duration_ms: number
  bytes_in: number
  bytes_out: number
  upstream: string | null
  outcome: EdgeRequest['outcome']
  reason: EdgeRequest['reason']
  ip_restriction_id: Uuid | null
  ip_policy_id: Uuid | null
  ip_policy_rule_id: Uuid | null
  generation: number
  trace: string | null
}

const columns = sql`account_id, id, created_at, node, edge_kind, edge_id, route_id, host(source_ip) as source_ip, protocol,
  method, host, path, status_code, duration_ms, bytes_in, bytes_out, upstream, outcome, reason, ip_restriction_id,
  ip_policy_id, ip_policy_rule_id, generation, trace`

/** Restores the format of the node. */
const toEdgeRequest = (row: RequestRow): EdgeRequest => ({
  id: row.id,
  at: row.created_at,
  node: row.node,
  account: toId('ac', row.account_id),
  edge: toId(row.edge_kind === 'tcp' ? 'edgtcp' : 'edghts', row.edge_id),
  route: row.route_id && toId('edghtsrt', row.route_id),
  source: canonicalAddress(row.source_ip),
  protocol: row.protocol,
  method: row.method,
  host: row.host,
  path: row.path,
  status: row.status_code,
  durationMs: row.duration_ms,
  bytesIn: row.bytes_in,
  bytesOut: row.bytes_out,
  upstream: row.upstream,
  outcome: row.outcome,
  reason: row.reason,
  restriction: row.ip_restriction_id && toId('ipx', row.ip_restriction_id),
  policy: row.ip_policy_id && toId('ipp', row.ip_policy_id),
  rule: row.ip_policy_rule_id && toId('ipr', row.ip_policy_rule_id),
  generation: row.generation,
  trace: row.trace,
})

export async function findRequest(db: Db, { accountId }: Caller, id: Uuid): Promise<EdgeRequest | undefined> {
  const row = await maybeOne<RequestRow>(
    db,
    sql`select ${columns} from edge_requests where account_id = ${accountId} and id = ${id}`,
  )
  return row && toEdgeRequest(row)
}

export async function listRequests(db: Db, { accountId }: Caller, query: Query): Promise<EdgeRequest[]> {
  const { before_id, edge_id, route_id, outcome, status_class, source_ip } = query
  const { since, until } = momentsOf(query)
  const range = source_ip && canonicalCidr(source_ip)
  const rows = await many<RequestRow>(
    db,
    // Filters by the timestamp in the id, which selects the partition; as range bounds, which can use an index.
    sql`
    select ${columns} from edge_requests
    where account_id = ${accountId}
      ${before_id ? sql`and id < ${before_id}` : nothing}
      ${since === undefined ? nothing : sql`and id >= ${firstUuidOf(since)}`}
      ${until === undefined ? nothing : sql`and id < ${firstUuidOf(until)}`}
      ${edge_id ? sql`and edge_id = ${toUuid(edge_id)}` : nothing}
      ${route_id ? sql`and route_id = ${toUuid(route_id)}` : nothing}
      ${outcome ? sql`and outcome = ${outcome}` : nothing}
      ${status_class ? sql`and status_code / 100 = ${Number(status_class[0])}::int` : nothing}
      ${
        range
          ? sql`and source_ip >= host(network(${range}::inet))::inet and source_ip <= host(broadcast(${range}::inet))::inet`
          : nothing
      }
    order by id desc
    limit ${rowsToFetch(query)}`,
  )
  return rows.map(toEdgeRequest)
}

/** Number of the account's dropped requests, in the hours of the query. */
export async function countDroppedRequests(db: Db, { accountId }: Caller, query: Query): Promise<number> {
  const { since, until } = momentsOf(query)
  const { dropped } = await one<{ dropped: number }>(
    db,
    sql`
    select coalesce(sum(dropped), 0)::bigint as dropped from edge_request_counts
    where account_id = ${accountId}
      ${since === undefined ? nothing : sql`and hour >= date_trunc('hour', ${rfc3339(since)}::timestamptz)`}
      ${until === undefined ? nothing : sql`and hour < ${rfc3339(until)}`}`,
  )
  return dropped
}

const firstMoment = 0
const lastMoment = Date.parse('9999-12-31T23:59:59.999Z')

/** Limits times to the range of a UUIDv7. */
function momentsOf({ since, until }: Query): { since?: number; until?: number } {
  const toMoment = (text: string | null | undefined) => {
    const moment = text ? parseRfc3339(text) : undefined
    return moment === undefined ? undefined : Math.min(Math.max(moment, firstMoment), lastMoment)
  }
  const [from, to] = [toMoment(since), toMoment(until)]
  return { ...(from !== undefined && { since: from }), ...(to !== undefined && { until: to }) }
}
