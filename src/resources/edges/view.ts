import type { Static } from 'typebox'
import type { ForwardingModules } from '../../health/edges.ts'
import { toId, type Uuid } from '../../kernel/ids.ts'
import { shownAnnotations } from '../../operations/annotations.ts'
import type { EdgeKind } from './module.ts'
import { modulesOn } from './modules.ts'
import type { HttpsEdge, HttpsRoute, TcpEdge } from './schema.ts'
import type { EdgeRow, HttpsEdgeRow, RouteRow } from './store.ts'

type UriOf = (path: string) => string

/** All modules of the kind; null if not set. */
const shownModules = (row: EdgeRow, kind: EdgeKind, uri: UriOf): ForwardingModules => {
  const shown: Record<string, object | null> = Object.fromEntries(
    modulesOn(kind).map(([name, module]) => {
      const stored = row.modules[name]
      return [name, stored ? module.show(stored, uri) : null]
    }),
  )
  return shown as ForwardingModules
}

/** Omits refused hostports if there are none, as with annotations. */
const shownHostports = ({ hostports, refused_hostports }: EdgeRow) => ({
  hostports,
  ...(refused_hostports.length > 0 && { refused_hostports }),
})

export function toTcpEdge(row: EdgeRow, uri: UriOf): Static<typeof TcpEdge> {
  const id = toId('edgtcp', row.id)
  return {
    id,
    uri: uri(`/edges/tcp/${id}`),
    created_at: row.created_at,
    ...shownAnnotations(row),
    ...shownHostports(row),
    cells: row.cells,
    ...shownModules(row, 'tcp', uri),
  }
}

export function toHttpsRoute(row: RouteRow, uri: UriOf): HttpsRoute {
  const [edge_id, id] = [toId('edghts', row.parent_id), toId('edghtsrt', row.id)]
  return {
    edge_id,
    id,
    uri: uri(`/edges/https/${edge_id}/routes/${id}`),
    created_at: row.created_at,
    ...shownAnnotations(row),
    match_type: row.match_type,
    match: row.match,
    encoded_slashes: row.encoded_slashes,
    path_variants: row.path_variants,
    websocket: row.websocket,
    timeouts: row.timeouts,
    ...shownModules(row, 'route', uri),
  }
}

export function toHttpsEdge(row: HttpsEdgeRow, uri: UriOf): HttpsEdge {
  const id = toId('edghts', row.id)
  return {
    id,
    uri: uri(`/edges/https/${id}`),
    created_at: row.created_at,
    ...shownAnnotations(row),
    ...shownHostports(row),
    cells: row.cells,
    ...shownModules(row, 'https', uri),
    routes: row.routes.map((route) => toHttpsRoute(route, uri)),
  }
}

/** References to a TCP edge, or to a route and its edge. */
export function refsOf(row: { id: Uuid; kind: 'tcp' | 'route'; parent_id: Uuid | null }, uri: UriOf) {
  if (row.kind === 'tcp' || row.parent_id === null) {
    const id = toId('edgtcp', row.id)
    return { target: { id, uri: uri(`/edges/tcp/${id}`) }, edge: null }
  }
  const [edgeId, id] = [toId('edghts', row.parent_id), toId('edghtsrt', row.id)]
  const edge = { id: edgeId, uri: uri(`/edges/https/${edgeId}`) }
  return { target: { id, uri: `${edge.uri}/routes/${id}` }, edge }
}
