import { isDeepStrictEqual } from 'node:util'
import type { Db } from '../../db/pool.ts'
import type { RecordKey } from '../../distribution/records.ts'
import { httpsEdgeStatuses, routeStatuses } from '../../health/shown.ts'
import type { InstallationSettings } from '../../http/route.ts'
import type { Caller } from '../../identity/caller.ts'
import type { RouteTimeouts } from '../../kernel/edge/timeouts.ts'
import { notFound, Refusal } from '../../kernel/errors.ts'
import { type Id, toId, toUuid, type Uuid } from '../../kernel/ids.ts'
import { newAnnotations, patchedAnnotations } from '../../operations/annotations.ts'
import { createRoute, deleteRoute, updateRoute } from '../../operations/change_routes.ts'
import { edgeGuard } from '../../operations/decision_change.ts'
import { getRoute, listRoute } from '../../operations/read_routes.ts'
import type { Resource } from '../../operations/resource.ts'
import { checkCells, holdCells } from './cells.ts'
import {
  cellNodesKeys,
  checkHostports,
  checkInlineModules,
  checkWildcards,
  restrictionsKey,
  setInlineModules,
} from './changes.ts'
import { setHttpsHostports } from './domains.ts'
import { moduleBodyLimitBytes } from './module.ts'
import { moduleRoutes } from './module_routes.ts'
import {
  HttpsEdge,
  HttpsEdgeCreate,
  HttpsEdgeQuery,
  HttpsEdgeUpdate,
  HttpsRoute,
  HttpsRouteCreate,
  HttpsRouteQuery,
  HttpsRouteUpdate,
} from './schema.ts'
import {
  countRoutes,
  deleteEdge,
  findEdge,
  findHttpsEdge,
  findRoute,
  type HttpsEdgeRow,
  insertEdge,
  listHttpsEdges,
  listRoutes,
  type RouteRow,
  updateEdge,
} from './store.ts'
import { toHttpsEdge, toHttpsRoute } from './view.ts'

/** Limited because an edge shows all of its routes. */
const maxRoutes = 1_000

const routeKey = (id: Uuid): RecordKey => `route.${toId('edghtsrt', id)}`

const edges: Resource<{ id: 'edghts' }, HttpsEdgeRow, typeof HttpsEdge> = {
  name: 'https_edges',
  quota: 'https_edges',
  path: '/edges/https',
  params: { id: 'edghts' },
  shape: HttpsEdge,
  view: toHttpsEdge,
  statuses: httpsEdgeStatuses,
  find: findHttpsEdge,
  guard: edgeGuard(['delete']),
  // Records of routes name the edge, not its hostports, so they change only if the edge is deleted or moves to other
  // cells.
  records: ({ id, routes, cells, modules }, { accountId }, verb, before) => [
    `https.${toId('edghts', id)}`,
    ...(modules.mutual_tls || before?.modules.mutual_tls ? [`mutual_tls.${toId('edghts', id)}` as const] : []),
    ...(verb === 'create' ? [restrictionsKey(accountId)] : []),
    ...(verb === 'delete' || (before && !isDeepStrictEqual(before.cells, cells))
      ? routes.map((route) => routeKey(route.id))
      : []),
  ],
}

const rereadEdge = async (tx: Db, caller: Caller, id: Uuid): Promise<HttpsEdgeRow> => {
  const row = await findHttpsEdge(tx, caller, toId('edghts', id), false)
  if (!row) throw new Error('an edge that is held by this transaction is not there')
  return row
}

const routes: Resource<{ edge_id: 'edghts'; id: 'edghtsrt' }, RouteRow, typeof HttpsRoute> = {
  name: 'https_edge_routes',
  quota: 'https_edge_routes',
  path: '/edges/https/:edge_id/routes',
  params: { edge_id: 'edghts', id: 'edghtsrt' },
  shape: HttpsRoute,
  view: toHttpsRoute,
  statuses: routeStatuses,
  find: (db, caller, id, lock, { edge_id }) => findRoute(db, caller, edge_id, id, lock),
  guard: edgeGuard(['create', 'update', 'delete']),
  records: (row, caller) => [routeKey(row.id), ...cellNodesKeys(row, caller)],
}

const rereadRoute = async (tx: Db, caller: Caller, edgeId: Id<'edghts'>, id: Uuid) => {
  const row = await findRoute(tx, caller, edgeId, toId('edghtsrt', id), false)
  if (!row) throw new Error('a route that is held by this transaction is not there')
  return row
}
const checkModules = checkInlineModules('route')
const checkEdgeModules = checkInlineModules('https')
const checkEdge = (
  body: { hostports?: string[]; cells?: string[] | null },
  settings: InstallationSettings,
  isVendorClient: boolean,
) => {
  checkEdgeModules(body, settings, isVendorClient)
  checkHostports(body)
  checkCells(body)
  checkWildcards(settings, body.hostports)
}

export const httpsEdgeRoutes = [
  createRoute(edges, {
    access: 'anyone',
    body: HttpsEdgeCreate,
    bodyLimitBytes: moduleBodyLimitBytes,
    errors: ['ERR_HOSTPORT_TAKEN', 'ERR_DOMAIN_UNVERIFIED'],
    check: checkEdge,
    async insert(tx, { caller, body, domains }) {
      await holdCells(tx, caller, body.cells)
      const id = await insertEdge(tx, caller, { kind: 'https', cells: body.cells, ...newAnnotations(body) })
      await setHttpsHostports(tx, caller, domains, id, body.hostports)
      await setInlineModules(tx, caller, 'https', id, body)
      return rereadEdge(tx, caller, id)
    },
  }),
  getRoute(edges, { access: 'anyone' }),
  listRoute(edges, { access: 'anyone', field: 'https_edges', query: HttpsEdgeQuery, select: listHttpsEdges }),
  updateRoute(edges, {
    access: 'anyone',
    body: HttpsEdgeUpdate,
    // Clients may send back the routes that a GET returned.
    bodyLimitBytes: moduleBodyLimitBytes,
    errors: ['ERR_HOSTPORT_TAKEN', 'ERR_DOMAIN_UNVERIFIED'],
    check: checkEdge,
    async apply(tx, { caller, body, domains }, before) {
      const { cells = before.cells } = body
      await holdCells(tx, caller, body.cells)
      await updateEdge(tx, caller, before.id, { cells, ...patchedAnnotations(before, body) })
      await setHttpsHostports(tx, caller, domains, before.id, body.hostports)
      await setInlineModules(tx, caller, 'https', before.id, body)
      return rereadEdge(tx, caller, before.id)
    },
  }),
  deleteRoute(edges, {
    summary: 'Delete an HTTPS edge and its routes',
    access: 'anyone',
    remove: (tx, { caller }, before) => deleteEdge(tx, caller, before.id),
  }),
  ...moduleRoutes(edges, 'https'),

  createRoute(routes, {
    access: 'anyone',
    body: HttpsRouteCreate,
    bodyLimitBytes: moduleBodyLimitBytes,
    errors: ['ERR_MATCH_TAKEN', 'ERR_TOO_MANY'],
    check: checkModules,
    async insert(tx, { caller, params: { edge_id }, body }) {
      if (!(await findEdge(tx, caller, 'https', edge_id, true))) throw notFound('edghts')
      const parentId = toUuid(edge_id)
      if ((await countRoutes(tx, caller, parentId)) >= maxRoutes) {
        throw new Refusal(
          'ERR_TOO_MANY',
          `An HTTPS edge can have at most ${maxRoutes} routes. Add the route to another edge.`,
        )
      }
      const { match_type, match, encoded_slashes, path_variants, websocket } = body
      const timeouts = timeoutsIn(body.timeouts)
      const paths = { match_type, match, encoded_slashes, path_variants }
      const fields = { ...paths, websocket, timeouts, ...newAnnotations(body) }
      const id = await insertEdge(tx, caller, { kind: 'route', parentId, ...fields })
      await setInlineModules(tx, caller, 'route', id, body)
      return rereadRoute(tx, caller, edge_id, id)
    },
  }),
  getRoute(routes, { access: 'anyone' }),
  listRoute(routes, {
    summary: 'List the routes of an HTTPS edge, newest first',
    access: 'anyone',
    field: 'https_edge_routes',
    query: HttpsRouteQuery,
    async select(db, caller, query, { edge_id }) {
      const rows = await listRoutes(db, caller, edge_id, query)
      if (!rows) throw notFound('edghts')
      return rows
    },
  }),
  updateRoute(routes, {
    access: 'anyone',
    body: HttpsRouteUpdate,
    vendorDefaults: ['description', 'metadata'],
    bodyLimitBytes: moduleBodyLimitBytes,
    errors: ['ERR_MATCH_TAKEN'],
    check: checkModules,
    async apply(tx, { caller, params, body }, before) {
      const { match_type = before.match_type, match = before.match } = body
      const { encoded_slashes = before.encoded_slashes, path_variants = before.path_variants } = body
      const { websocket = before.websocket } = body
      const timeouts = body.timeouts === undefined ? before.timeouts : timeoutsIn(body.timeouts)
      const paths = { match_type, match, encoded_slashes, path_variants }
      const fields = { ...paths, websocket, timeouts, ...patchedAnnotations(before, body) }
      await updateEdge(tx, caller, before.id, fields)
      await setInlineModules(tx, caller, 'route', before.id, body)
      return rereadRoute(tx, caller, params.edge_id, before.id)
    },
  }),
  deleteRoute(routes, { access: 'anyone', remove: (tx, { caller }, before) => deleteEdge(tx, caller, before.id) }),

  ...moduleRoutes(routes, 'route'),
]

/** All three, so that responses show which are defaults. Null if all are. */
function timeoutsIn(sent: Partial<RouteTimeouts> | null | undefined): RouteTimeouts | null {
  const { connect_seconds = null, response_seconds = null, idle_seconds = null } = sent ?? {}
  const isDefault = connect_seconds === null && response_seconds === null && idle_seconds === null
  return isDefault ? null : { connect_seconds, response_seconds, idle_seconds }
}
