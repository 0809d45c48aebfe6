import { useQuery } from '@tanstack/react-query'
import type { Shapes } from '../../api/client.ts'
import { queries } from '../../api/queries.ts'

export type Group =
  | { kind: 'weighted'; backend: Shapes['WeightedBackend'] }
  | { kind: 'failover'; backend: Shapes['FailoverBackend'] }
  | { kind: 'http_response'; backend: Shapes['HttpResponseBackend'] }

export const kindLabels: Record<Group['kind'], string> = {
  weighted: 'Weighted',
  failover: 'Failover',
  http_response: 'HTTP response',
}

export function nameOfGroup({ kind, backend }: Group): string {
  if (backend.description) return backend.description
  return kind === 'http_response' ? `${kindLabels[kind]} ${backend.status_code}` : `${kindLabels[kind]} ${backend.id}`
}

export const nameOfStatic = ({ address, description }: Shapes['StaticBackend']): string =>
  description ? `${address} (${description})` : address

/** Every backend that is not a single server. Undefined until all are loaded. */
export function useGroups(): Group[] | undefined {
  const weighted = useQuery(queries.weightedBackends()).data
  const failover = useQuery(queries.failoverBackends()).data
  const responses = useQuery(queries.responseBackends()).data
  if (!weighted || !failover || !responses) return undefined
  return [
    ...weighted.map((backend) => ({ kind: 'weighted' as const, backend })),
    ...failover.map((backend) => ({ kind: 'failover' as const, backend })),
    ...responses.map((backend) => ({ kind: 'http_response' as const, backend })),
  ]
}

/** The first failed read. */
export function useFailedGroups() {
  return [
    useQuery(queries.weightedBackends()),
    useQuery(queries.failoverBackends()),
    useQuery(queries.responseBackends()),
  ].find(({ isError }) => isError)
}

const canRespond = ({ kind, backend }: Group): boolean =>
  kind === 'http_response' || (kind === 'failover' && backend.backends.some((id) => id.startsWith('bkdhr_')))

/** Backends that an edge or route can use. A TCP edge cannot send an HTTP response. */
export function useBackendOptions(on: 'tcp' | 'route'): { value: string; label: string }[] {
  const backends = useQuery(queries.backends()).data ?? []
  const groups = useGroups() ?? []
  return [
    ...backends.map((backend) => ({ value: backend.id, label: nameOfStatic(backend) })),
    ...groups
      .filter((group) => on === 'route' || !canRespond(group))
      .map((group) => ({ value: group.backend.id, label: `${kindLabels[group.kind]}: ${nameOfGroup(group)}` })),
  ]
}
