import { queryOptions, useQuery } from '@tanstack/react-query'
import { Link } from 'react-router'
import { answerOf, api, type Shapes } from '../../api/client.ts'
import { queries } from '../../api/queries.ts'
import { type Group, nameOfGroup } from '../edges/backend_options.ts'

export type Server = Shapes['StaticBackend']
export type Backend = { kind: 'static'; backend: Server } | Group

export const nameOf = (backend: Backend): string =>
  backend.kind === 'static' ? (backend.backend.description ?? backend.backend.address) : nameOfGroup(backend)

/** One backend; the id determines its kind. */
export const backendQuery = (id: string) =>
  queryOptions({ queryKey: ['get', '/backends', id], queryFn: () => read(id), refetchInterval: 15_000 })

async function read(id: string): Promise<Backend> {
  const of = { params: { path: { id } } }
  if (id.startsWith('bkdwd_'))
    return { kind: 'weighted', backend: await answerOf(api.GET('/backends/weighted/{id}', of)) }
  if (id.startsWith('bkdfo_'))
    return { kind: 'failover', backend: await answerOf(api.GET('/backends/failover/{id}', of)) }
  if (id.startsWith('bkdhr_'))
    return { kind: 'http_response', backend: await answerOf(api.GET('/backends/http_response/{id}', of)) }
  return { kind: 'static', backend: await answerOf(api.GET('/backends/static/{id}', of)) }
}

/** Link to a backend of any kind, by name. */
export function BackendLink({ id }: { id: string }) {
  const servers = useQuery(queries.backends()).data
  const weighted = useQuery(queries.weightedBackends()).data
  const failover = useQuery(queries.failoverBackends()).data
  const responses = useQuery(queries.responseBackends()).data
  const server = servers?.find((each) => each.id === id)
  const group = [...(weighted ?? []), ...(failover ?? [])].find((each) => each.id === id)
  const response = responses?.find((each) => each.id === id)
  const name = server
    ? (server.description ?? server.address)
    : response
      ? nameOfGroup({ kind: 'http_response', backend: response })
      : (group?.description ?? id)
  return <Link to={`/backends/${id}`}>{name}</Link>
}
