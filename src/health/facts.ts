import { type Db, one } from '../db/pool.ts'
import { type SqlFragment, sql } from '../db/sql.ts'
import type { Handling } from '../http/route.ts'
import { rfc3339 } from '../kernel/clock.ts'
import { type BackendId, type BackendKind, backendKinds } from '../kernel/edge/backends.ts'
import type { EdgeNode } from '../kernel/edge/edge_nodes.ts'
import { type Id, toId, toUuid, type Uuid } from '../kernel/ids.ts'
import { type BackendFacts, backendKey, type ServerReport } from './backends.ts'
import type { CertificateFacts } from './domains.ts'
import type { EdgeContext } from './edges.ts'
import type { NodeFacts } from './fleet.ts'
import type { Rollout } from './status.ts'

export type HealthRequest = Pick<Handling<unknown, unknown, unknown>, 'db' | 'clock' | 'edges' | 'noteStatusUnread'> & {
  readonly caller: { readonly accountId: Uuid }
}

/** Inputs for the status of one page of resources. */
export type Wanted = {
  /** Their records on nodes. */
  readonly keys?: readonly string[]
  /** Includes the members of groups. */
  readonly backends?: readonly BackendId[]
  /** HTTPS edges whose routes are shown without the edge. */
  readonly edges?: readonly Id<'edghts'>[]
  /** Host names of HTTPS edges. */
  readonly names?: readonly string[]
  readonly certificates?: readonly Id<'cert'>[]
}
export type Facts = EdgeContext & {
  /** Cells that serve those edges. */
  readonly cellsOfEdges: ReadonlyMap<string, readonly string[] | null>
  readonly validities: ReadonlyMap<string, CertificateFacts>
  /** Why the renewal of a certificate fails. */
  readonly orderFaults: ReadonlyMap<string, string>
}

const toRollout = ({ id, reached, reason }: Omit<Row['rollouts'][number], 'key'>): Rollout =>
  reached < 0
    ? { id: toId('ro', id), state: 'halted', reason }
    : { id: toId('ro', id), state: 'watching', reason: null }

type BackendRow = {
  id: Uuid
  kind: BackendKind
  name: string | null
  has_check: boolean
  is_used: boolean
  members: { id: Uuid; kind: BackendKind; weight: number | null }[] | null
  reports: ServerReport[] | null
}
type Row = {
  withheld: { key: string; reason: string }[]
  rollouts: { key: string; id: Uuid; reached: number; reason: string | null }[]
  newest: number | null
  oldest: number | null
  due: number
  /** Cells in which the account is placed. */
  cells: string[]
  edges: { id: Uuid; cells: string[] | null }[]
  own: { generation: number }[]
  backends: BackendRow[]
  expired: { name: string; not_after: string }[]
  certificates: (CertificateFacts & { id: Uuid; order_fault: string | null })[]
}

/** Nodes usually apply a change within a second. After this time, a node counts as behind. */
const settleTime = sql`interval '10 seconds'`
/** Twice the time in which a node repeats its complete report. */
const reportedForMs = 15 * 60_000
/** Limit of servers of one backend, on all nodes together. */
const maxReports = 1_000

const utc = (column: SqlFragment) => sql`to_char(${column} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`

/** `soon`: less than two weeks and less than a third of the lifetime left, which is a few days for some. */
export const certificateExpiry = sql`
      case when c.not_after <= now() then 'expired'
        when c.not_after <= now() + least(interval '14 days', (c.not_after - c.not_before) / 3) then 'soon'
        else 'later' end`

/** The newest generation that every node should have applied by now. */
export const dueGeneration = sql`
  case when (select created_at from outbox order by generation desc limit 1) >= now() - ${settleTime}
    then coalesce((select generation from outbox where created_at < now() - ${settleTime} order by generation desc limit 1), 0)
    else settled_generation() end`

export const readDueGeneration = async (db: Db): Promise<number> =>
  (await one<{ due: number }>(db, sql`select ${dueGeneration} as due`)).due

const backendColumns = (accountId: Uuid, live: readonly string[], now: number) => sql`
  b.id, b.kind, coalesce(b.description, case when b.kind = 'static' then b.address end) as name,
  b.health_check is not null as has_check,
  exists (select from edge_modules m where m.account_id = b.account_id and m.backend_id = b.id and m.enabled)
    or exists (
      select from backend_members g join edge_modules m on m.account_id = g.account_id and m.backend_id = g.group_id
      where g.account_id = b.account_id and g.member_id = b.id and m.enabled) as is_used,
  (select json_agg(json_build_object('id', g.member_id, 'kind', g.member_kind, 'weight', g.weight) order by g.position)
    from backend_members g where g.account_id = b.account_id and g.group_id = b.id) as members,
  (select json_agg(json_build_object('node', r.node, 'address', r.address, 'status', r.status, 'reason', r.reason,
      'since', r.since))
    from (
      select h.node, case family(h.address) when 6 then '[' || host(h.address) || ']' else host(h.address) end || ':' || h.port
        as address, h.status, h.reason, ${utc(sql`h.since`)} as since
      from backend_health h
      where h.account_id = ${accountId} and h.backend_id = b.id and h.node = any(${live})
        and h.reported_at >= ${rfc3339(now - reportedForMs)}
      order by h.address, h.port, h.node limit ${maxReports}) r) as reports`

const rowsAsJson = (query: SqlFragment) => sql`coalesce((select json_agg(found) from (${query}) found), '[]')`

/** One statement for any number of resources: a page of a hundred edges costs as many round trips as one edge. */
function readFacts({ db, caller, clock }: HealthRequest, nodes: readonly EdgeNode[], wanted: Wanted): Promise<Row> {
  const { keys = [], backends = [], edges = [], names = [], certificates = [] } = wanted
  const { accountId } = caller
  const live = nodes.filter((node) => node.live)
  const applied = live.length === 0 ? Number.MAX_SAFE_INTEGER : Math.min(...live.map((node) => node.applied))
  const ids = backends.map(toUuid)
  return one<Row>(
    db,
    sql`
    with wanted as (
      select unnest(${ids}::uuid[]) as id
      union select g.member_id from backend_members g where g.account_id = ${accountId} and g.group_id = any(${ids}::uuid[])
    )
    select ${dueGeneration} as due,
      (select max(generation) from outbox
        where generation > ${applied} and account_id = ${accountId} and created_at < now() - ${settleTime}) as newest,
      (select min(generation) from outbox) as oldest,
      ${rowsAsJson(sql`
        select distinct generation from outbox
        where generation = any(${unlistedGenerations(live)}) and account_id = ${accountId}`)} as own,
      array(select name from cells where is_placed(${accountId}, id)) as cells,
      ${rowsAsJson(sql`
        select id, cells from edges where account_id = ${accountId} and id = any(${edges.map(toUuid)}::uuid[])`)} as edges,
      ${rowsAsJson(sql`select key, min(reason) as reason from unsent_records where key = any(${keys}) group by key`)} as withheld,
      ${rowsAsJson(sql`
        select distinct on (h.key) h.key, r.public_id as id, r.reached, r.reason
        from held_records h join rollouts r on r.id = h.rollout_id
        where h.key = any(${keys}) and r.account_id = ${accountId} and r.ended_at is null
        order by h.key, r.reached`)} as rollouts,
      ${rowsAsJson(sql`
        select ${backendColumns(
          accountId,
          live.map(({ node }) => node),
          clock(),
        )}
        from wanted w join backends b on b.account_id = ${accountId} and b.id = w.id`)} as backends,
      ${rowsAsJson(sql`
        select h.name, ${utc(sql`c.not_after`)} as not_after
        from unnest(${names}::text[]) as h (name)
          join hostports p on p.hostport = h.name || ':443' and p.account_id = ${accountId}
          join reserved_domains d on d.account_id = p.account_id and d.id = p.reserved_domain_id
          join tls_certificates c on c.account_id = d.account_id and c.id = d.certificate_id
        where c.not_after <= now() and c.facts -> 'subject_alternative_names' -> 'dns_names'
          ?| array[h.name, '*' || substr(h.name, strpos(h.name, '.'))]`)} as expired,
      ${rowsAsJson(sql`
        select c.id, ${utc(sql`c.not_before`)} as not_before, ${utc(sql`c.not_after`)} as not_after, ${certificateExpiry} as expiry, (
          select coalesce(o.error, o.error_code) from reserved_domains d
            join acme_orders o on o.account_id = d.account_id and o.domain_id = d.id
          where d.account_id = c.account_id and d.certificate_id = c.id and o.error_code is not null limit 1) as order_fault
        from tls_certificates c
        where c.account_id = ${accountId} and c.id = any(${certificates.map(toUuid)}::uuid[])`)} as certificates`,
  )
}

type Refusing = Pick<EdgeNode, 'refusals' | 'refused'>
const listedGenerations = ({ refusals }: Refusing): Set<number | null> =>
  new Set(refusals.map(({ generation }) => generation))

/** Generations of rejected records that the node's report does not list. */
const unlistedOf = (node: Refusing): number[] => {
  const listed = listedGenerations(node)
  return (node.refused?.generations ?? []).filter((generation) => !listed.has(generation))
}
const unlistedGenerations = (nodes: readonly Refusing[]): number[] => [...new Set(nodes.flatMap(unlistedOf))]

export type AccountFacts = Pick<Row, 'newest' | 'oldest' | 'due'> & {
  readonly accountId: string
  readonly keys: ReadonlySet<string>
  readonly own: ReadonlySet<number>
}

/** The part of a node's state that an account may see; excludes other accounts' data. */
export function nodeFacts(node: EdgeNode, { accountId, keys, own, newest, oldest, due }: AccountFacts): NodeFacts {
  const { certificates } = node
  // The outbox holds changes of the last day, so it is unknown which older ones the node lacks.
  const lacksOld = node.applied < due && (oldest === null || node.applied < oldest)
  return {
    node: node.node,
    cell: node.cell,
    live: node.live,
    lastSeenAt: rfc3339(node.lastSeenAt),
    isBehind: lacksOld || (newest !== null && node.applied < newest),
    hasStorageFault: node.storageFault !== undefined,
    refused: new Map(node.refusals.filter(({ key }) => keys.has(key)).map(({ key, reason }) => [key, reason])),
    refusedUnlisted: unlistedOf(node).some((generation) => own.has(generation)),
    uncovered: certificates && uncoveredOf(certificates, accountId),
  }
}

function uncoveredOf({ missing, uncovered }: NonNullable<EdgeNode['certificates']>, accountId: string) {
  if (missing === 0) return { names: new Set<string>(), isComplete: true }
  if (missing === undefined || !uncovered) return undefined
  const own = uncovered.accounts.find(({ account }) => account === accountId)
  return { names: new Set(own?.names), isComplete: own ? own.names.length >= own.count : !uncovered.isCut }
}

export async function loadFacts(request: HealthRequest, wanted: Wanted): Promise<Facts> {
  const { edges, caller, clock } = request
  const nodes = edges.all()
  const accountId = toId('ac', caller.accountId)
  const restrictionsKey = `restrictions.${accountId}`
  const cellNodesKey = `cell_nodes.${accountId}`
  const keys = [...(wanted.keys ?? []), restrictionsKey, cellNodesKey]
  const row = await readFacts(request, nodes, { ...wanted, keys })
  const backends = row.backends.map(toBackendFacts)
  const known = new Set([...keys, ...backends.map(({ id }) => backendKey(id))])
  const own = nodes.filter(({ cell }) => row.cells.includes(cell))
  const account = { ...row, accountId, keys: known, own: new Set(row.own.map(({ generation }) => generation)) }
  return {
    now: clock(),
    fleet: { isConnected: edges.isConnected(), nodes: own.map((node) => nodeFacts(node, account)) },
    cellsOfEdges: new Map(row.edges.map(({ id, cells }) => [toId('edghts', id), cells])),
    restrictionsKey,
    cellNodesKey,
    withheld: new Map(row.withheld.map(({ key, reason }) => [key, reason])),
    rollouts: new Map(row.rollouts.map(({ key, ...rollout }) => [key, toRollout(rollout)])),
    backends: new Map(backends.map((backend) => [backend.id, backend])),
    certificates: new Map(row.expired.map(({ name, not_after }) => [name, { notAfter: not_after }])),
    validities: new Map(row.certificates.map((each) => [toId('cert', each.id), each])),
    orderFaults: new Map(
      row.certificates.flatMap(({ id, order_fault }) =>
        order_fault === null ? [] : [[toId('cert', id), order_fault]],
      ),
    ),
  }
}

const backendId = (kind: BackendKind, uuid: Uuid): BackendId => toId(backendKinds[kind], uuid)

function toBackendFacts({ id, kind, name, has_check, is_used, members, reports }: BackendRow): BackendFacts {
  return {
    id: backendId(kind, id),
    kind,
    name: name ?? backendId(kind, id),
    hasCheck: has_check,
    isUsed: is_used,
    members: (members ?? []).map((member) => ({ id: backendId(member.kind, member.id), weight: member.weight })),
    reports: reports ?? [],
  }
}
