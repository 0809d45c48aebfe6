import { deleteInBatches } from '../../db/batches.ts'
import { type Db, type DbPool, maybeOne, one } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { transaction } from '../../db/transaction.ts'
import type { KeptRequest, RequestBatch } from '../../distribution/request_batch.ts'
import { rfc3339 } from '../../kernel/clock.ts'
import { isId, toUuid } from '../../kernel/ids.ts'

export type Kept = {
  kept: number
  /** Over quota, or dropped by the node itself. */
  dropped: number
  /** Requests of an edge or route that the account does not have. */
  unknown: number
}

/**
 * Writes a batch: requests for known edges, up to the quota, and counts the rest. Repeated batches, sent because a node
 * missed the response, and repeated requests in other batches change nothing.
 */
export const keepRequests = (
  db: DbPool,
  { node, batch, requests, dropped }: RequestBatch,
  quotaPerHour: number,
): Promise<Kept> =>
  transaction(db, async (tx) => {
    // Locks the node's row to serialize its batches; otherwise two could count the quota at once.
    const isNew = await maybeOne(
      tx,
      sql`
      insert into edge_request_batches as b (node, batch_id) values (${node}, ${batch})
      on conflict (node) do update set batch_id = excluded.batch_id, received_at = now()
        where b.batch_id <> excluded.batch_id
      returning node`,
    )
    if (!isNew) return { kept: 0, dropped: 0, unknown: 0 }
    const written = await write(tx, node, requests, quotaPerHour)
    const counted = await addDropped(tx, node, dropped)
    return {
      kept: written.kept,
      dropped: written.beyond + counted,
      unknown: requests.length - written.known,
    }
  })

const toColumns = (request: KeptRequest) => ({
  account_id: toUuid(request.account),
  id: request.id,
  created_at: request.at,
  edge_kind: isId('edgtcp', request.edge) ? 'tcp' : 'https',
  edge_id: toUuid(request.edge),
  route_id: request.route && toUuid(request.route),
  source_ip: request.source,
  protocol: request.protocol,
  method: request.method,
  host: request.host,
  path: request.path,
  status_code: request.status,
  duration_ms: request.durationMs,
  bytes_in: request.bytesIn,
  bytes_out: request.bytesOut,
  upstream: request.upstream,
  outcome: request.outcome,
  reason: request.reason,
  ip_restriction_id: request.restriction && toUuid(request.restriction),
  ip_policy_id: request.policy && toUuid(request.policy),
  ip_policy_rule_id: request.rule && toUuid(request.rule),
  generation: request.generation,
  trace: request.trace,
})

const columns = sql`created_at, edge_kind, edge_id, route_id, source_ip, protocol, method, host, path, status_code,
  duration_ms, bytes_in, bytes_out, upstream, outcome, reason, ip_restriction_id, ip_policy_id, ip_policy_rule_id,
  generation, trace`

const write = (tx: Db, node: string, requests: readonly KeptRequest[], quotaPerHour: number) =>
  one<{ known: number; kept: number; beyond: number }>(
    tx,
    sql`
    with sent as (
      select distinct on (account_id, id) * from jsonb_to_recordset(${JSON.stringify(requests.map(toColumns))}::jsonb) as s (
        account_id uuid, id uuid, created_at timestamptz, edge_kind text, edge_id uuid, route_id uuid, source_ip inet,
        protocol text, method text, host text, path text, status_code int, duration_ms bigint, bytes_in bigint,
        bytes_out bigint, upstream text, outcome text, reason text, ip_restriction_id uuid, ip_policy_id uuid,
        ip_policy_rule_id uuid, generation bigint, trace text)
      order by account_id, id
    ), known as (
      select s.*, date_trunc('hour', s.created_at) as hour
      from sent s join edges e on e.account_id = s.account_id and e.id = s.edge_id and e.kind = s.edge_kind
        left join edges r on r.account_id = s.account_id and r.id = s.route_id and r.parent_id = s.edge_id
      where s.route_id is null or r.id is not null
    ), fresh as (
      select k.*, row_number() over (partition by k.account_id, k.hour order by k.id)
        + coalesce((select c.kept from edge_request_counts c
                    where c.account_id = k.account_id and c.hour = k.hour and c.node = ${node}), 0) as place
      from known k
      where not exists (select from edge_requests r where r.account_id = k.account_id and r.id = k.id)
    ), kept as (
      insert into edge_requests (account_id, id, node, ${columns})
      select account_id, id, ${node}, ${columns} from fresh where place <= ${quotaPerHour}::int
      on conflict do nothing
    ), counted as (
      insert into edge_request_counts as c (account_id, hour, node, kept, dropped)
      select account_id, hour, ${node}, count(*) filter (where place <= ${quotaPerHour}::int),
        count(*) filter (where place > ${quotaPerHour}::int)
      from fresh group by account_id, hour
      on conflict (account_id, hour, node) do update set
        kept = c.kept + excluded.kept, dropped = c.dropped + excluded.dropped
    )
    select (select count(*) from known) as known,
      (select count(*) from fresh where place <= ${quotaPerHour}::int) as kept,
      (select count(*) from fresh where place > ${quotaPerHour}::int) as beyond`,
  )

/** Counts what the node itself dropped, for existing accounts. */
async function addDropped(tx: Db, node: string, dropped: RequestBatch['dropped']): Promise<number> {
  const { count } = await one<{ count: number }>(
    tx,
    sql`
    with counted as (
      insert into edge_request_counts as c (account_id, hour, node, dropped)
      select s.account_id, s.hour, ${node}, sum(s.count)::bigint
      from unnest(
          ${dropped.map(({ account }) => toUuid(account))}::uuid[], ${dropped.map(({ hour }) => hour)}::timestamptz[],
          ${dropped.map(({ count }) => count)}::bigint[]) as s (account_id, hour, count)
        join accounts a on a.id = s.account_id
      group by s.account_id, s.hour
      on conflict (account_id, hour, node) do update set dropped = c.dropped + excluded.dropped
      returning 1)
    select count(*) from counted`,
  )
  return count === 0 ? 0 : dropped.reduce((sum, each) => sum + each.count, 0)
}

export const deleteRequestCountsBefore = (db: Db, moment: number): Promise<number> =>
  deleteInBatches(db, sql`edge_request_counts`, sql`hour < ${rfc3339(moment)}`)
