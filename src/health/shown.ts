import { isUnavailable } from '../db/failures.ts'
import type { BackendId } from '../kernel/edge/backends.ts'
import type { Id } from '../kernel/ids.ts'
import { backendKey, backendStatus } from './backends.ts'
import { type CertificateFacts, type DomainFacts, domainStatus, validity } from './domains.ts'
import {
  type HttpsEdgeFacts,
  hostOf,
  httpsEdgeKeys,
  httpsEdgeStatus,
  inCells,
  type RouteFacts,
  routeStatus,
  type TcpEdgeFacts,
  tcpEdgeStatus,
} from './edges.ts'
import { type Facts, type HealthRequest, loadFacts, type Wanted } from './facts.ts'
import { onNodes } from './fleet.ts'
import { because, degraded, type Status, unknown, worstOf } from './status.ts'
import { type WebhookFacts, webhookStatus } from './webhooks.ts'

/**
 * Reads the status of a page of resources with one statement, and returns the added fields for each. All other inputs
 * come from the resources as shown.
 */
export type StatusReader<Shown> = (
  request: HealthRequest,
  shown: readonly Shown[],
) => Promise<(each: Shown) => { status: Status }>

const unreadable = unknown('control_plane_blind', 'The database did not answer, so its status is not known.')

/** Never fails the request: a change may already be committed, and a list may be all that still works. */
const reader =
  <Shown>(
    wantedBy: (shown: readonly Shown[]) => Wanted,
    statusOf: (each: Shown, facts: Facts) => Status,
  ): StatusReader<Shown> =>
  async (request, shown) => {
    const facts = await readable(request, wantedBy(shown))
    return (each) => ({ status: facts ? statusOf(each, facts) : unreadable })
  }

async function readable(request: HealthRequest, wanted: Wanted): Promise<Facts | undefined> {
  try {
    return await loadFacts(request, wanted)
  } catch (error) {
    if (!isUnavailable(error)) throw error
    request.noteStatusUnread((error as Error).message)
    return undefined
  }
}

type Forwarding = Pick<RouteFacts, 'id' | 'backend' | 'ip_restriction'>

/** Inputs for everything that forwards traffic. `keys`: their own records. */
function wantedByForwarding(
  carriers: readonly Forwarding[],
  keys: readonly string[],
  names: readonly string[] = [],
): Wanted {
  const backends = carriers.flatMap(({ backend }) => (backend?.enabled ? [backend.backend_id] : []))
  const policies = carriers.flatMap(({ ip_restriction: each }) => (each?.enabled ? each.ip_policy_ids : []))
  return {
    backends: [...new Set(backends)],
    names,
    keys: [...new Set([...keys, ...backends.map(backendKey), ...policies.map((id) => `policy.${id}`)])],
  }
}

export const tcpEdgeStatuses = reader<TcpEdgeFacts>(
  (edges) =>
    wantedByForwarding(
      edges,
      edges.map(({ id }) => `tcp.${id}`),
    ),
  tcpEdgeStatus,
)

const routeKeys = (routes: readonly RouteFacts[]): string[] => routes.map(({ id }) => `route.${id}`)

export const routeStatuses = reader<RouteFacts & { readonly edge_id: Id<'edghts'> }>(
  (routes) => ({
    ...wantedByForwarding(routes, routeKeys(routes)),
    edges: [...new Set(routes.map(({ edge_id }) => edge_id))],
  }),
  (route, facts) => routeStatus(route, inCells(facts, facts.cellsOfEdges.get(route.edge_id) ?? null)),
)

/** Includes the statuses of their routes. */
export async function httpsEdgeStatuses<Edge extends HttpsEdgeFacts>(request: HealthRequest, edges: readonly Edge[]) {
  const routes = edges.flatMap((edge) => edge.routes)
  const names = edges.flatMap(({ hostports }) => hostports.map(hostOf))
  const keys = [...edges.flatMap(({ id }) => httpsEdgeKeys(id)), ...routeKeys(routes)]
  const facts = await readable(request, wantedByForwarding(routes, keys, names))
  return (edge: Edge) => ({
    routes: edge.routes.map((route): Edge['routes'][number] & { status: Status } => ({
      ...route,
      status: facts ? routeStatus(route, inCells(facts, edge.cells)) : unreadable,
    })),
    status: facts ? httpsEdgeStatus(edge, facts) : unreadable,
  })
}

export const backendStatuses = reader<{ readonly id: BackendId }>(
  (backends) => {
    const ids = backends.map(({ id }) => id)
    return { backends: ids, keys: ids.map(backendKey) }
  },
  ({ id }, facts) => backendStatus(id, facts),
)

export const domainStatuses = reader<DomainFacts & { readonly certificate: { readonly id: string } | null }>(
  (domains) => ({
    certificates: domains.flatMap(({ certificate }) => (certificate ? [certificate.id as Id<'cert'>] : [])),
  }),
  (domain, { validities, now }) => {
    const certificate = domain.certificate ? validities.get(domain.certificate.id) : undefined
    return domainStatus(domain, certificate, now)
  },
)

type ShownCertificate = CertificateFacts & { readonly id: Id<'cert'>; readonly in_use_by: readonly unknown[] }

export const certificateStatuses = reader<ShownCertificate>(
  (certificates) => {
    const ids = certificates.map(({ id }) => id)
    return { certificates: ids, keys: ids.map((id) => `certificate.${id}`) }
  },
  (certificate, { now, fleet, withheld, rollouts, orderFaults }) => {
    const fault = orderFaults.get(certificate.id)
    const own = worstOf(
      validity(certificate, now),
      ...(fault === undefined ? [] : [degraded('certificate_order_failing', `Renewing it fails${because(fault)}`)]),
    )
    // Nodes have only certificates that a domain uses.
    if (own.state === 'down' || certificate.in_use_by.length === 0) return own
    return worstOf(own, onNodes(fleet, [`certificate.${certificate.id}`], { withheld, rollouts }))
  },
)

export const webhookStatuses: StatusReader<WebhookFacts> = async () => (each) => ({ status: webhookStatus(each) })
