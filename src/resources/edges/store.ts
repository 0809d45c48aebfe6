import { refusing } from '../../access/module_mode.ts'
import { violates } from '../../db/failures.ts'
import { type Db, later, many, maybeOne, one, run } from '../../db/pool.ts'
import { nothing, type SqlFragment, sql } from '../../db/sql.ts'
import type { Caller } from '../../identity/caller.ts'
import type { RouteTimeouts } from '../../kernel/edge/timeouts.ts'
import { Refusal } from '../../kernel/errors.ts'
import { type Id, newUuid, toUuid, type Uuid } from '../../kernel/ids.ts'
import { type PageQuery, rowsToFetch } from '../../kernel/paging.ts'
import type { AnnotationColumns } from '../../operations/annotations.ts'
import { type EdgeFilters, edgeFilters } from './filters.ts'
import type { EdgeKind, NewModule, StoredModule } from './module.ts'
import type { ModuleName } from './modules.ts'

export type Match = {
  match_type: 'exact_path' | 'path_prefix'
  match: string
  encoded_slashes: 'reject' | 'allow'
  path_variants: 'restrict' | 'ignore'
  websocket: boolean
  timeouts: RouteTimeouts | null
}
export type RefusedHostport = {
  hostport: string
  reason: 'overlap' | 'public_suffix' | 'domain_owned'
  refused_at: string
}
export type EdgeRow = AnnotationColumns & {
  id: Uuid
  created_at: string
  hostports: string[]
  refused_hostports: RefusedHostport[]
  /** Null: all cells of the account. */
  cells: string[] | null
  modules: Partial<Record<ModuleName, StoredModule>>
}
export type RouteRow = EdgeRow & Match & { parent_id: Uuid }
export type HttpsEdgeRow = EdgeRow & { routes: RouteRow[] }
type Account = Pick<Caller, 'accountId'>

/** All columns except the account, for queries that name the table `e`. */
export const edgeColumns = sql`
  e.id, e.parent_id, e.match_type, e.match, e.encoded_slashes, e.path_variants, e.websocket, e.timeouts, e.cells, e.description, e.metadata, e.created_at,
  array(select hostport from hostports h where h.account_id = e.account_id and h.edge_id = e.id order by position) as hostports,
  coalesce((
    select json_agg(json_build_object('hostport', r.hostport, 'reason', r.reason, 'refused_at', to_char(r.refused_at, 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')) order by r.position)
    from refused_hostports r where r.account_id = e.account_id and r.edge_id = e.id), '[]') as refused_hostports,
  coalesce((
    select json_object_agg(m.module, json_build_object('enabled', m.enabled, 'settings', m.settings, 'backend_id', m.backend_id,
      'backend_kind', b.kind,
      'policy_ids', array(select p.ip_policy_id from edge_module_policies p
                          where p.account_id = m.account_id and p.edge_id = m.edge_id and p.module = m.module order by p.position)))
    from edge_modules m left join backends b on b.account_id = m.account_id and b.id = m.backend_id
    where m.account_id = e.account_id and m.edge_id = e.id), '{}') as modules`

const select = (condition: SqlFragment) => sql`select ${edgeColumns} from edges e where ${condition}`

export async function findEdge<Row extends EdgeRow>(
  db: Db,
  { accountId }: Account,
  kind: EdgeKind,
  id: Id,
  lock: boolean,
): Promise<Row | undefined> {
  const which = sql`e.account_id = ${accountId} and e.id = ${toUuid(id)} and e.kind = ${kind}`
  // A separate statement: one that waits for the lock would still read hostports and modules from before the wait,
  // which the other transaction has just changed.
  if (lock) await later(db, sql`select from edges e where ${which} for update`)
  return maybeOne<Row>(db, select(which))
}

export async function findRoute(db: Db, caller: Account, edgeId: Id<'edghts'>, id: Id<'edghtsrt'>, lock: boolean) {
  const row = await findEdge<RouteRow>(db, caller, 'route', id, lock)
  return row?.parent_id === toUuid(edgeId) ? row : undefined
}

export async function findHttpsEdge(
  db: Db,
  caller: Account,
  id: Id<'edghts'>,
  lock: boolean,
): Promise<HttpsEdgeRow | undefined> {
  const edge = await findEdge(db, caller, 'https', id, lock)
  return edge && (await withRoutes(db, caller, [edge]))[0]
}

type EdgeQuery = PageQuery & EdgeFilters & { before_id?: Id }

export const listEdges = (db: Db, { accountId }: Account, kind: 'tcp' | 'https', query: EdgeQuery) =>
  listWhere<EdgeRow>(db, accountId, kind, sql`e.kind = ${kind} and e.parent_id is null`, query)

export const listHttpsEdges = async (db: Db, caller: Account, query: EdgeQuery) =>
  withRoutes(db, caller, await listEdges(db, caller, 'https', query))

/** Undefined if the account has no such edge. */
export async function listRoutes(db: Db, caller: Account, edgeId: Id<'edghts'>, query: EdgeQuery) {
  const { accountId } = caller
  const parentId = toUuid(edgeId)
  const routes = await listWhere<RouteRow>(db, accountId, 'route', sql`e.parent_id = ${parentId}`, query)
  if (routes.length > 0) return routes
  const edge = await findTarget(db, caller, edgeId)
  return edge?.kind === 'https' ? routes : undefined
}

const listWhere = <Row extends EdgeRow>(
  db: Db,
  accountId: Uuid,
  kind: EdgeKind,
  condition: SqlFragment,
  query: EdgeQuery,
) =>
  many<Row>(
    db,
    sql`
    ${select(sql`e.account_id = ${accountId} and ${condition}`)}
    ${query.before_id ? sql`and e.id < ${toUuid(query.before_id)}` : nothing}
    ${edgeFilters(accountId, kind, query)}
    order by e.id desc limit ${rowsToFetch(query)}`,
  )

async function withRoutes(db: Db, { accountId }: Account, edges: EdgeRow[]): Promise<HttpsEdgeRow[]> {
  const routes = await many<RouteRow>(
    db,
    sql`${select(sql`e.account_id = ${accountId} and e.parent_id = any(${edges.map(({ id }) => id)})`)} order by e.id desc`,
  )
  const byEdge = Map.groupBy(routes, ({ parent_id }) => parent_id)
  return edges.map((edge) => ({ ...edge, routes: byEdge.get(edge.id) ?? [] }))
}

type EdgeFields = AnnotationColumns & Partial<Match> & { cells?: readonly string[] | null | undefined }
type NewEdge = EdgeFields & { kind: EdgeKind; parentId?: Uuid }

export async function insertEdge(tx: Db, { accountId }: Account, edge: NewEdge): Promise<Uuid> {
  const id = newUuid()
  await refusingTakenMatch(
    run(
      tx,
      sql`
      insert into edges (account_id, id, kind, parent_id, match_type, match, encoded_slashes, path_variants, websocket, timeouts, cells, description, metadata)
      values (${accountId}, ${id}, ${edge.kind}, ${edge.parentId ?? null}, ${edge.match_type ?? null}, ${edge.match ?? null},
              ${edge.encoded_slashes ?? 'reject'}, ${edge.path_variants ?? 'restrict'}, ${edge.websocket ?? true}, ${storedTimeouts(edge)},
              ${edge.cells ?? null}, ${edge.description}, ${edge.metadata})`,
    ),
  )
  return id
}

export const updateEdge = (tx: Db, { accountId }: Account, id: Uuid, fields: EdgeFields) =>
  refusingTakenMatch(
    run(
      tx,
      sql`
      update edges set description = ${fields.description}, metadata = ${fields.metadata},
        match_type = ${fields.match_type ?? null}, match = ${fields.match ?? null},
        encoded_slashes = ${fields.encoded_slashes ?? 'reject'}, path_variants = ${fields.path_variants ?? 'restrict'}, websocket = ${fields.websocket ?? true},
        timeouts = ${storedTimeouts(fields)}, cells = ${fields.cells ?? null}
      where account_id = ${accountId} and id = ${id}`,
    ),
  )

const storedTimeouts = ({ timeouts }: Partial<Match>): string | null => (timeouts ? JSON.stringify(timeouts) : null)

/** Cascades to its hostports, routes and modules. */
export const deleteEdge = (tx: Db, { accountId }: Account, id: Uuid) =>
  later(tx, sql`delete from edges where account_id = ${accountId} and id = ${id}`)

export const countRoutes = async (tx: Db, { accountId }: Account, edgeId: Uuid): Promise<number> =>
  (
    await one<{ count: number }>(
      tx,
      sql`select count(*) from edges where account_id = ${accountId} and parent_id = ${edgeId}`,
    )
  ).count

export async function putModule(
  tx: Db,
  account: Account,
  edgeId: Uuid,
  name: ModuleName,
  module: NewModule,
): Promise<void> {
  const { accountId } = account
  await removeModule(tx, account, edgeId, name)
  await later(
    tx,
    sql`
    insert into edge_modules (account_id, edge_id, module, enabled, settings, backend_id)
    values (${accountId}, ${edgeId}, ${name}, ${module.enabled}, ${JSON.stringify(module.settings)},
            ${module.backendId && toUuid(module.backendId)})`,
  )
  if (module.policyIds.length === 0) return
  await later(
    tx,
    sql`
    insert into edge_module_policies (account_id, edge_id, module, ip_policy_id, position)
    select ${accountId}, ${edgeId}, ${name}, sent.id, sent.position
    from unnest(${module.policyIds.map(toUuid)}::uuid[]) with ordinality as sent (id, position)`,
  )
}

/** Makes the account's nodes receive the number of nodes in their cell. */
export const noteCellLimit = (tx: Db, { accountId }: Account): Promise<void> =>
  run(tx, sql`insert into accounts_with_cell_limits (account_id) values (${accountId}) on conflict do nothing`)

export const removeModule = (tx: Db, { accountId }: Account, edgeId: Uuid, name: ModuleName) =>
  later(tx, sql`delete from edge_modules where account_id = ${accountId} and edge_id = ${edgeId} and module = ${name}`)

async function refusingTakenMatch(query: Promise<void>): Promise<void> {
  try {
    await query
  } catch (cause) {
    if (!violates(cause, 'edges_match_unique')) throw cause
    throw new Refusal(
      'ERR_MATCH_TAKEN',
      'This HTTPS edge already has a route with this match. Change or delete that route.',
      {
        cause,
        details: { field: 'match' },
      },
    )
  }
}

export type Target = { id: Uuid; kind: EdgeKind; parent_id: Uuid | null }

export const findTarget = (db: Db, { accountId }: Account, id: Id) =>
  maybeOne<Target>(
    db,
    sql`select id, kind, parent_id from edges where account_id = ${accountId} and id = ${toUuid(id)}`,
  )

/** TCP edges and routes whose enabled `ip_restriction` module includes the policy, with all its policies. */
export const listRestrictedBy = (db: Db, { accountId }: Account, policyId: Uuid) =>
  many<Target & { kind: 'tcp' | 'route'; enforced: boolean; policy_ids: Uuid[] }>(
    db,
    sql`
    select e.id, e.kind, e.parent_id, ${refusing} as enforced, array(
      select p.ip_policy_id from edge_module_policies p
      where p.account_id = m.account_id and p.edge_id = m.edge_id and p.module = m.module order by p.position) as policy_ids
    from edge_module_policies using_it
      join edge_modules m
        on m.account_id = using_it.account_id and m.edge_id = using_it.edge_id and m.module = using_it.module
      join edges e on e.account_id = m.account_id and e.id = m.edge_id
    where using_it.account_id = ${accountId} and using_it.ip_policy_id = ${policyId} and m.enabled
    order by e.id`,
  )

type AttachedModule = { enforced: boolean; policies: { id: Uuid; revision: number }[] }
/** The `ip_restriction` module with its policies and their revisions. Undefined if absent or disabled. */
export const findModulePolicies = (db: Db, { accountId }: Account, id: Uuid) =>
  maybeOne<AttachedModule>(
    db,
    sql`
      select ${refusing} as enforced, coalesce((
        select json_agg(json_build_object('id', i.id, 'revision', i.revision) order by p.position)
        from edge_module_policies p join ip_policies i on i.account_id = p.account_id and i.id = p.ip_policy_id
        where p.account_id = m.account_id and p.edge_id = m.edge_id and p.module = m.module), '[]') as policies
      from edge_modules m
      where m.account_id = ${accountId} and m.edge_id = ${id} and m.module = 'ip_restriction' and m.enabled`,
  )
