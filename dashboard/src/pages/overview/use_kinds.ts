import { useQuery } from '@tanstack/react-query'
import { queries } from '../../api/queries.ts'
import type { Status } from '../../ui/status.tsx'

export type Thing = { id: string; name: string; status: Status | undefined; to: string }
type Read = { isError: boolean; isPending: boolean }
export type Kind = Read & { one: string; many: string; to: string; things: readonly Thing[] }

/** All resources with a status. Causes precede their effects. */
export function useKinds(isAdmin: boolean): Kind[] {
  const nodes = useQuery({ ...queries.nodes(), enabled: isAdmin })
  const backends = useQuery(queries.backends())
  const weighted = useQuery(queries.weightedBackends())
  const failover = useQuery(queries.failoverBackends())
  const https = useQuery(queries.httpsEdges())
  const tcp = useQuery(queries.tcpEdges())
  const domains = useQuery(queries.domains())
  const certificates = useQuery(queries.certificates())
  const webhooks = useQuery({ ...queries.webhooks(), enabled: isAdmin })
  const kinds: Kind[] = [
    {
      ...kindOf('backend', '/backends', backends, weighted, failover),
      things: [
        ...(backends.data ?? []).map((each) => ({ ...each, name: each.description ?? each.address })),
        ...[...(weighted.data ?? []), ...(failover.data ?? [])].map((each) => ({
          ...each,
          name: each.description ?? each.id,
        })),
      ].map(({ id, name, status }) => ({ id, status, name: `Backend ${name}`, to: `/backends/${id}` })),
    },
    {
      ...kindOf('edge', '/edges', https, tcp),
      things: [...(https.data ?? []), ...(tcp.data ?? [])].map(({ id, description, hostports, status }) => ({
        ...{ id, status, name: `Edge ${description ?? hostports[0] ?? id}` },
        to: `/edges/${id}`,
      })),
    },
    {
      ...kindOf('domain', '/domains', domains),
      things: (domains.data ?? []).map(({ id, domain, status }) => ({
        ...{ id, status, name: `Domain ${domain}` },
        to: `/domains/${id}`,
      })),
    },
    {
      ...kindOf('certificate', '/certificates', certificates),
      things: (certificates.data ?? []).map(({ id, description, subject_common_name, status }) => ({
        ...{ id, status, name: `Certificate ${description ?? subject_common_name ?? id}` },
        to: `/certificates/${id}`,
      })),
    },
  ]
  // Only admins may read these.
  if (!isAdmin) return kinds
  return [
    {
      ...kindOf('node', '/nodes', nodes),
      things: (nodes.data?.edge_nodes ?? []).map(({ name, status }) => ({
        ...{ id: `node ${name}`, status, name: `Node ${name}` },
        to: `/nodes/${encodeURIComponent(name)}`,
      })),
    },
    ...kinds,
    {
      ...kindOf('webhook', '/webhooks', webhooks),
      things: (webhooks.data ?? []).map(({ id, description, url, status }) => ({
        ...{ id, status, name: `Webhook ${description ?? url}` },
        to: `/webhooks/${id}`,
      })),
    },
  ]
}

const kindOf = (one: string, to: string, ...reads: readonly Read[]) => ({
  ...{ one, many: `${one}s`, to },
  isError: reads.some(({ isError }) => isError),
  isPending: reads.some(({ isPending }) => isPending),
})

/** Codes of a node or backend that its dependents show too. */
const passedOn: Readonly<Record<string, ReadonlySet<string>>> = {
  node: new Set(['node_away', 'node_behind', 'storage_fault', 'control_plane_blind']),
  backend: new Set([
    ...['servers_down', 'servers_failing', 'on_fallback', 'not_checked_yet', 'no_live_node'],
    ...['node_away', 'node_behind', 'storage_fault', 'control_plane_blind'],
  ]),
}

/**
 * Omits effects of causes listed earlier: otherwise an absent node would be listed for each edge. A cause that this
 * person cannot read hides nothing.
 */
export function withoutEffects(kinds: readonly Kind[]): Kind[] {
  const causes = new Set<string>()
  return kinds.map((kind) => {
    const things = kind.things.filter(({ status }) => !causes.has(status?.code ?? ''))
    for (const { status } of kind.things) {
      const code = status?.code ?? ''
      if (passedOn[kind.one]?.has(code)) causes.add(code)
      // All nodes are away, so the state of everything that they serve is unknown.
      if (kind.one === 'node' && code === 'node_away') causes.add('no_live_node')
    }
    return { ...kind, things }
  })
}
