import type { Db } from '../../db/pool.ts'
import type { RecordKey } from '../../distribution/records.ts'
import type { InstallationSettings } from '../../http/route.ts'
import type { Caller } from '../../identity/caller.ts'
import { notFound, Refusal } from '../../kernel/errors.ts'
import { type Id, toId, toUuid, type Uuid } from '../../kernel/ids.ts'
import { newAnnotations, patchedAnnotations } from '../../operations/annotations.ts'
import { resource } from '../../operations/resource.ts'
import {
  checkHostports,
  checkInlineModules,
  checkWildcards,
  restrictionsKey,
  setHostports,
  setInlineModules,
} from './changes.ts'
import { moduleRoutes } from './module_routes.ts'
import { moduleBodyLimitBytes } from './modules.ts'
import {
  HttpsEdge,
  HttpsEdgeCreate,
  HttpsEdgeQuery,
  HttpsEdgeUpdate,
  HttpsRoute,
  HttpsRouteCreate,
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
  updateEdge,
} from './store.ts'
import { toHttpsEdge, toHttpsRoute } from './view.ts'

/** An edge shows all of its routes, so that their number has to end somewhere. */
const maxRoutes = 1_000

const routeKey = (id: Uuid): RecordKey => `route.${toId('edghtsrt', id)}`

const edges = resource({
  name: 'https_edges',
  prefix: 'edghts',
  path: '/edges/https',
  shape: HttpsEdge,
  view: toHttpsEdge,
  find: findHttpsEdge,
  // Its routes name the edge and not its hostports, so they change with it only when it goes.
  records: ({ id, routes }, { accountId }, verb) => [
    `https.${toId('edghts', id)}`,
    ...(verb === 'create' ? [restrictionsKey(accountId)] : []),
    ...(verb === 'delete' ? routes.map((route) => routeKey(route.id)) : []),
  ],
})

const rereadEdge = async (tx: Db, caller: Caller, id: Uuid): Promise<HttpsEdgeRow> => {
  const row = await findHttpsEdge(tx, caller, toId('edghts', id), false)
  if (!row) throw new Error('an edge that is held by this transaction is not there')
  return row
}

const routes = resource({
  name: 'https_edge_routes',
  prefix: 'edghtsrt',
  path: '/edges/https/:edge_id/routes',
  parentParams: { edge_id: 'edghts' },
  shape: HttpsRoute,
  view: toHttpsRoute,
  find: (db, caller, id, lock, { edge_id }) => findRoute(db, caller, edge_id, id, lock),
  records: ({ id }) => [routeKey(id)],
})

const rereadRoute = async (tx: Db, caller: Caller, edgeId: Id<'edghts'>, id: Uuid) => {
  const row = await findRoute(tx, caller, edgeId, toId('edghtsrt', id), false)
  if (!row) throw new Error('a route that is held by this transaction is not there')
  return row
}
const checkModules = checkInlineModules('route')
const checkNames = (body: { hostports?: string[] }, settings: InstallationSettings) => {
  checkHostports(body)
  checkWildcards(settings, body.hostports)
}

export const httpsEdgeRoutes = [
  edges.create({
    access: 'anyone',
    body: HttpsEdgeCreate,
    errors: ['ERR_HOSTPORT_TAKEN'],
    check: checkNames,
    async insert(tx, { caller, body }) {
      const id = await insertEdge(tx, caller, { kind: 'https', ...newAnnotations(body) })
      await setHostports(tx, caller, id, body.hostports)
      return rereadEdge(tx, caller, id)
    },
  }),
  edges.get(),
  edges.list({ field: 'https_edges', query: HttpsEdgeQuery, select: listHttpsEdges }),
  edges.update({
    access: 'anyone',
    body: HttpsEdgeUpdate,
    errors: ['ERR_HOSTPORT_TAKEN'],
    check: checkNames,
    async apply(tx, { caller, body }, before) {
      await updateEdge(tx, caller, before.id, patchedAnnotations(before, body))
      await setHostports(tx, caller, before.id, body.hostports)
      return rereadEdge(tx, caller, before.id)
    },
  }),
  edges.delete({
    summary: 'Delete an HTTPS edge and its routes',
    access: 'anyone',
    remove: (tx, { caller }, before) => deleteEdge(tx, caller, before.id),
  }),

  routes.create({
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
      const { match_type, match, encoded_slashes, websocket } = body
      const fields = { match_type, match, encoded_slashes, websocket, ...newAnnotations(body) }
      const id = await insertEdge(tx, caller, { kind: 'route', parentId, ...fields })
      await setInlineModules(tx, caller, 'route', id, body)
      return rereadRoute(tx, caller, edge_id, id)
    },
  }),
  routes.get(),
  routes.update({
    access: 'anyone',
    body: HttpsRouteUpdate,
    vendorDefaults: ['description', 'metadata'],
    bodyLimitBytes: moduleBodyLimitBytes,
    errors: ['ERR_MATCH_TAKEN'],
    check: checkModules,
    async apply(tx, { caller, params, body }, before) {
      const { match_type = before.match_type, match = before.match } = body
      const { encoded_slashes = before.encoded_slashes, websocket = before.websocket } = body
      const fields = { match_type, match, encoded_slashes, websocket, ...patchedAnnotations(before, body) }
      await updateEdge(tx, caller, before.id, fields)
      await setInlineModules(tx, caller, 'route', before.id, body)
      return rereadRoute(tx, caller, params.edge_id, before.id)
    },
  }),
  routes.delete({ access: 'anyone', remove: (tx, { caller }, before) => deleteEdge(tx, caller, before.id) }),

  ...moduleRoutes({
    kind: 'route',
    name: 'https_edge_routes',
    path: '/edges/https/:edge_id/routes/:id',
    params: { edge_id: 'edghts', id: 'edghtsrt' },
    prefix: 'edghtsrt',
    find: (db, caller, { edge_id, id }, lock) => findRoute(db, caller, edge_id, id, lock),
    records: ({ id }) => [routeKey(id)],
  }),
]
