import { useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { $api } from '../../api/client.ts'
import { queries } from '../../api/queries.ts'

export type Names = {
  policy: (id: string) => string
  restriction: (id: string) => string
  edge: (id: string) => string
  /** The route's path, if the edge still has it. */
  route: (id: string) => string | undefined
}
const fresh = { staleTime: 30_000 }

/** Names for the ids in requests. Deleted resources keep their id. */
export function useNames(): Names {
  const policies = useQuery({ ...queries.policies(), ...fresh }).data
  const restrictions = useQuery({ ...queries.restrictions(), ...fresh }).data
  const https = useQuery({ ...queries.httpsEdges(), ...fresh }).data
  const tcp = useQuery({ ...queries.tcpEdges(), ...fresh }).data
  return useMemo(() => {
    const names = new Map<string, string>()
    for (const { id, description } of [...(policies ?? []), ...(restrictions ?? [])]) names.set(id, description || id)
    for (const { id, description, hostports } of [...(https ?? []), ...(tcp ?? [])])
      names.set(id, description || hostports[0] || id)
    const routes = new Map((https ?? []).flatMap((edge) => edge.routes.map(({ id, match }) => [id, match] as const)))
    const nameOf = (id: string) => names.get(id) ?? id
    return { policy: nameOf, restriction: nameOf, edge: nameOf, route: (id) => routes.get(id) }
  }, [policies, restrictions, https, tcp])
}

/**
 * The deciding rule in its current state. A rule keeps its id when its description changes, but not when its range
 * does.
 */
export const useRule = (id: string | undefined) =>
  $api.useQuery(
    'get',
    '/ip_policy_rules/{id}',
    { params: { path: { id: id ?? '' } } },
    { enabled: id !== undefined, staleTime: 60_000, retry: false },
  )
