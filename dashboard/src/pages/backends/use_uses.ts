import { useQuery } from '@tanstack/react-query'
import type { Shapes } from '../../api/client.ts'
import { queries } from '../../api/queries.ts'
import { type Group, useGroups } from '../edges/backend_options.ts'

/** A route, or a TCP edge, that forwards to a backend. */
export type Use = {
  /** Id of the route, or of the TCP edge. */
  id: string
  edgeId: string
  routeId?: string
  name: string
  match?: string
  backendId: string
  enabled: boolean
  isOpen: boolean
  status: Shapes['Status'] | undefined
}

export type Uses = {
  direct: readonly Use[]
  /** Groups that contain it, with the users of each. */
  groups: readonly { group: Group; uses: readonly Use[] }[]
}

const usesOf = (https: readonly Shapes['HttpsEdge'][], tcp: readonly Shapes['TcpEdge'][]): Use[] => [
  ...https.flatMap(({ id: edgeId, description, hostports, routes }) =>
    routes.flatMap(({ id, match, backend, ip_restriction, status }): Use[] =>
      backend
        ? [
            {
              ...{ id, edgeId, routeId: id, name: description ?? hostports[0] ?? edgeId, match, status },
              ...{ backendId: backend.backend.id, enabled: backend.enabled, isOpen: !ip_restriction?.enabled },
            },
          ]
        : [],
    ),
  ),
  ...tcp.flatMap(({ id, description, hostports, backend, ip_restriction, status }): Use[] =>
    backend
      ? [
          {
            ...{ id, edgeId: id, name: description ?? hostports[0] ?? id, status },
            ...{ backendId: backend.backend.id, enabled: backend.enabled, isOpen: !ip_restriction?.enabled },
          },
        ]
      : [],
  ),
]

export const membersOf = (group: Group): string[] =>
  group.kind === 'weighted'
    ? Object.keys(group.backend.backends)
    : group.kind === 'failover'
      ? [...group.backend.backends]
      : []

/**
 * Routes and TCP edges that forward to a backend, directly or through groups. Undefined while loading; null if
 * unreadable.
 */
export function useUses(id: string): Uses | null | undefined {
  const https = useQuery(queries.httpsEdges())
  const tcp = useQuery(queries.tcpEdges())
  const reads = [https, tcp, useQuery(queries.weightedBackends()), useQuery(queries.failoverBackends())]
  const groups = useGroups()
  if (reads.some(({ isError }) => isError)) return null
  if (!https.data || !tcp.data || !groups) return undefined
  const all = usesOf(https.data, tcp.data)
  const of = (wanted: string) => all.filter(({ backendId }) => backendId === wanted)
  return {
    direct: of(id),
    groups: groups
      .filter((group) => membersOf(group).includes(id))
      .map((group) => ({ group, uses: of(group.backend.id) })),
  }
}
