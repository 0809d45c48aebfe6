import type { BackendId } from '../kernel/edge/backends.ts'
import { type BackendContext, backendStatus } from './backends.ts'
import { liveNodes, onNodes, silence } from './fleet.ts'
import { degraded, down, listed, type Status, together, unknown, up, within, worstOf } from './status.ts'

type BackendModule = { readonly enabled: boolean; readonly backend_id: BackendId } | null
type RedirectModule = { readonly enabled: boolean; readonly to: string } | null
type RateLimitModule = { readonly enabled: boolean; readonly scope: 'node' | 'cell' } | null
type RestrictionModule = { readonly enabled: boolean; readonly ip_policy_ids: readonly string[] } | null

/** Modules as responses of TCP edges and routes show them. */
export type ForwardingModules = { readonly backend: BackendModule; readonly ip_restriction: RestrictionModule }
type Forwarding = ForwardingModules & { readonly id: string; readonly rate_limit?: RateLimitModule }
export type RouteFacts = Forwarding & { readonly match: string; readonly redirect?: RedirectModule }
/** Null: all cells of the account. */
type Cells = { readonly cells: readonly string[] | null }
type Hostports = {
  readonly id: string
  readonly hostports: readonly string[]
  readonly refused_hostports?: readonly { readonly hostport: string }[]
}
export type TcpEdgeFacts = Hostports & Forwarding & Cells
export type HttpsEdgeFacts = Hostports & Cells & { readonly routes: readonly RouteFacts[] }

export type EdgeContext = BackendContext & {
  /** Record of the account's restrictions, which apply to each of its edges. */
  readonly restrictionsKey: string
  /** Record of the number of nodes among which cell-wide limits are divided. */
  readonly cellNodesKey: string
  /** The account's certificates by name, for names whose domain has one. */
  readonly certificates: ReadonlyMap<string, { readonly notAfter: string }>
  readonly now: number
}

/** Limits the context to nodes in the edge's cells. */
export function inCells<Context extends EdgeContext>(context: Context, cells: Cells['cells']): Context {
  const { fleet } = context
  const nodes = cells === null ? fleet.nodes : fleet.nodes.filter(({ cell }) => cells.includes(cell))
  return { ...context, everyCell: true, fleet: { ...fleet, nodes } }
}

function forwarding({ backend }: Forwarding, context: BackendContext): Status {
  if (!backend) return down('no_backend', 'It has no backend.')
  if (!backend.enabled) return down('backend_disabled', 'Its backend is disabled.')
  const name = context.backends.get(backend.backend_id)?.name ?? backend.backend_id
  return within(name, backendStatus(backend.backend_id, context))
}

/** Further records that its traffic depends on, besides the backend. */
const keysOf = (
  key: string,
  { ip_restriction, rate_limit }: Forwarding,
  { restrictionsKey, cellNodesKey }: EdgeContext,
): string[] => [
  key,
  restrictionsKey,
  ...(rate_limit?.enabled && rate_limit.scope === 'cell' ? [cellNodesKey] : []),
  ...(ip_restriction?.enabled ? ip_restriction.ip_policy_ids.map((id) => `policy.${id}`) : []),
]

export function routeStatus(route: RouteFacts, context: EdgeContext): Status {
  const forwards = route.redirect?.enabled ? up(`It redirects to ${route.redirect.to}.`) : forwarding(route, context)
  if (forwards.state === 'down') return forwards
  return worstOf(forwards, onNodes(context.fleet, keysOf(`route.${route.id}`, route, context), context))
}

export function tcpEdgeStatus(edge: TcpEdgeFacts, known: EdgeContext): Status {
  const context = inCells(known, edge.cells)
  const reachable = hostportStatus(edge)
  if (reachable.state === 'down') return reachable
  const onEachNode = onNodes(context.fleet, keysOf(`tcp.${edge.id}`, edge, context), context)
  return worstOf(forwarding(edge, context), onEachNode, reachable)
}

/** Only one of them exists: with mutual TLS, the second. */
export const httpsEdgeKeys = (id: string): string[] => [`https.${id}`, `mutual_tls.${id}`]

export function httpsEdgeStatus(edge: HttpsEdgeFacts, known: EdgeContext): Status {
  const context = inCells(known, edge.cells)
  const reachable = hostportStatus(edge)
  if (reachable.state === 'down') return reachable
  const [first, ...others] = edge.routes.map((route) => within(`Route ${route.match}`, routeStatus(route, context)))
  if (!first) return down('no_routes', 'It has no routes, so every request gets 404.')
  const routes = together(first, ...others)
  const onEachNode = onNodes(context.fleet, httpsEdgeKeys(edge.id), context)
  const found = worstOf(certificateStatus(edge, context), routes, onEachNode, reachable)
  return found.state === 'up' ? up('Every route has a backend that answers.', routes.since) : found
}

function hostportStatus({ hostports, refused_hostports = [] }: Hostports): Status {
  const refused = listed(refused_hostports.map(({ hostport }) => hostport))
  if (hostports.length === 0)
    return refused_hostports.length === 0
      ? down('no_hostports', 'It has no hostports, so nothing reaches it.')
      : down('hostports_refused', `None of its hostports is in force: ${refused}.`)
  if (refused_hostports.length > 0) return degraded('hostports_refused', `Not in force: ${refused}.`)
  return up('Its hostports are in force.')
}

export const hostOf = (hostport: string): string => hostport.slice(0, hostport.lastIndexOf(':'))

/** Without a usable certificate for a name, its clients fail at the TLS handshake. */
function certificateStatus({ hostports }: HttpsEdgeFacts, context: EdgeContext): Status {
  const [first, ...others] = hostports.map((hostport) => nameStatus(hostOf(hostport), context))
  return first ? together(first, ...others) : up('It has no names.')
}

function nameStatus(name: string, { fleet, certificates, now }: EdgeContext): Status {
  const silent = silence(fleet)
  if (silent) return silent
  const live = liveNodes(fleet)
  const lacking = live.filter(({ uncovered }) => uncovered?.names.has(name))
  if (lacking.length > 0) {
    const all = lacking.length === live.length
    const where = all
      ? 'No edge node has'
      : `${listed(lacking.map(({ node }) => node))} ${lacking.length === 1 ? 'has' : 'have'}`
    const text = `${where} ${all ? 'a' : 'no'} certificate for ${name}, so clients get a TLS error.`
    return all ? down('certificate_missing', text) : degraded('certificate_missing', text)
  }
  const expiry = certificates.get(name)?.notAfter
  if (expiry !== undefined && Date.parse(expiry) <= now)
    return down('certificate_expired', `The certificate for ${name} has expired, so clients refuse it.`, expiry)
  const unclear = live.filter(({ uncovered }) => !uncovered?.isComplete)
  if (unclear.length > 0)
    return unknown(
      'certificate_not_reported',
      `${listed(unclear.map(({ node }) => node))} did not say whether there is a certificate for ${name}.`,
    )
  return up('Every node has a certificate for its names.')
}
