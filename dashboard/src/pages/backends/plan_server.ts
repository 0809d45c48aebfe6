import { api, type Shapes } from '../../api/client.ts'
import { type Backend, nameOf, type Server } from './backend.tsx'
import { readOrder, readWeights } from './members.ts'
import type { Use } from './use_uses.ts'

/** Where to add a server: to an existing group, or to a new one that replaces the server. */
export type Place =
  | { kind: 'group'; group: Extract<Backend, { kind: 'weighted' | 'failover' }> }
  | { kind: 'new'; server: Server; uses: readonly Use[] }

export const placeId = (place: Place): string => (place.kind === 'new' ? 'new' : place.group.backend.id)
export const nameOfNew = (server: Server): string => `${nameOf({ kind: 'static', backend: server })} pool`

type Planned = Shapes['ChangeSetCreate']['changes'][number]
type Wanted = { address: string; description: string; weight: number; like: Server | undefined; place: Place }

const [newServer, newGroup] = ['{{changes[0].id}}', '{{changes[1].id}}']

/** The server and all dependent changes, planned from current data: the page may be seconds old. */
export async function planServer({ address, description, weight, like, place }: Wanted): Promise<Planned[]> {
  const server = { address, ...(description && { description }), ...(like && settingsOf(like)) }
  const created = { operation: 'static_backends.create', body: server }
  if (place.kind === 'new') {
    const { id } = place.server
    const backends = { [id]: weight, [newServer]: weight }
    const body = { description: nameOfNew(place.server), backends }
    const moved = await Promise.all(place.uses.map((use) => move(use, id)))
    return [created, { operation: 'weighted_backends.create', body }, ...moved.flat()]
  }
  const { id } = place.group.backend
  if (place.group.kind === 'weighted') {
    const { weights, etag } = await readWeights(id)
    const body = { backends: { ...weights, [newServer]: weight } }
    return [created, { operation: 'weighted_backends.update', parameters: { id }, body, if_match: etag }]
  }
  const { order, etag } = await readOrder(id)
  // A fixed response answers if no server is up, so it stays last.
  const servers = order.filter((each) => !each.startsWith('bkdhr_'))
  const body = { backends: [...servers, newServer, ...order.slice(servers.length)] }
  return [created, { operation: 'failover_backends.update', parameters: { id }, body, if_match: etag }]
}

/** Servers that share traffic usually have the same settings. */
const settingsOf = ({ tls, protocol, send_proxy_protocol, health_check }: Server) => ({
  tls: { enabled: tls.enabled },
  ...{ protocol, send_proxy_protocol, health_check },
})

/** Moves a user to the new group, unless it was pointed elsewhere meanwhile. */
async function move({ edgeId, routeId }: Use, from: string): Promise<Planned[]> {
  const { data, response } = routeId
    ? await api.GET('/edges/https/{edge_id}/routes/{id}/backend', {
        params: { path: { edge_id: edgeId, id: routeId } },
      })
    : await api.GET('/edges/tcp/{id}/backend', { params: { path: { id: edgeId } } })
  if (data?.backend.id !== from) return []
  const target: Planned = routeId
    ? { operation: 'https_edge_routes.backend.replace', parameters: { edge_id: edgeId, id: routeId } }
    : { operation: 'tcp_edges.backend.replace', parameters: { id: edgeId } }
  const if_match = response.headers.get('etag')
  return [{ ...target, body: { backend_id: newGroup, enabled: data.enabled }, ...(if_match && { if_match }) }]
}
