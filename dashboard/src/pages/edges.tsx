import { type UseQueryResult, useQuery } from '@tanstack/react-query'
import { type ReactNode, useId, useState } from 'react'
import { Link, useParams } from 'react-router'
import { queries } from '../api/queries.ts'
import { Badge } from '../ui/badge.tsx'
import { Button } from '../ui/button.tsx'
import { Loaded } from '../ui/loading.tsx'
import { PageHeader } from '../ui/page_header.tsx'
import { useOpenOnArrival } from '../ui/use_open_on_arrival.ts'
import { CreateEdge } from './edges/create.tsx'
import { HttpsDetail } from './edges/https.tsx'
import { TcpDetail } from './edges/tcp.tsx'

export function Edges() {
  const { id } = useParams()
  if (id?.startsWith('edgtcp_')) return <TcpDetail key={id} id={id} />
  if (id) return <HttpsDetail key={id} id={id} />
  return <EdgeList />
}

function EdgeList() {
  const tcp = useQuery(queries.tcpEdges())
  const https = useQuery(queries.httpsEdges())
  const [creating, setCreating] = useState<'tcp' | 'https'>()
  useOpenOnArrival((what) => setCreating(what === 'tcp' ? 'tcp' : 'https'))
  return (
    <>
      <PageHeader
        title="Edges"
        summary="Edges receive traffic. TCP edges forward connections; HTTPS edges choose a route by path."
      />
      <Listed title="HTTPS edges" one="HTTPS edge" column="Routes" query={https} onCreate={() => setCreating('https')}>
        {({ routes }) => (
          <>
            {routes.length === 0 && <Badge tone="warned">No routes: every request is refused</Badge>}
            <span className="mono">{routes.map(({ match }) => match).join('  ')}</span>
          </>
        )}
      </Listed>
      <Listed title="TCP edges" one="TCP edge" column="Addresses" query={tcp} onCreate={() => setCreating('tcp')}>
        {({ backend, ip_restriction }) => (
          <>
            {!backend?.enabled && <Badge tone="warned">No backend</Badge>}{' '}
            {ip_restriction?.enabled ? (
              <Badge tone="allowed">Restricted</Badge>
            ) : (
              <Badge tone="neutral">Open to every address</Badge>
            )}
          </>
        )}
      </Listed>
      {creating && <CreateEdge kind={creating} onClose={() => setCreating(undefined)} />}
    </>
  )
}

type Edge = { id: string; hostports: readonly string[]; refused_hostports?: readonly object[]; description?: string }
type ListedProps<E extends Edge> = {
  title: string
  one: string
  column: string
  query: UseQueryResult<E[]>
  onCreate: () => void
  children: (edge: E) => ReactNode
}

function Listed<E extends Edge>({ title, one, column, query, onCreate, children }: ListedProps<E>) {
  const heading = useId()
  return (
    <section className="card" aria-labelledby={heading}>
      <header>
        <h2 id={heading}>{title}</h2>
        <Button icon="plus" onPress={onCreate}>
          {`Create ${one}`}
        </Button>
      </header>
      <Loaded query={query} lines={3}>
        {(edges) =>
          edges.length === 0 ? (
            <p className="empty">No edges yet.</p>
          ) : (
            <table className="stack">
              <thead>
                <tr>
                  <th scope="col">Edge</th>
                  <th scope="col">{column}</th>
                </tr>
              </thead>
              <tbody>
                {edges.map((edge) => (
                  <tr key={edge.id}>
                    <th scope="row">
                      <EdgeLink {...edge} />
                    </th>
                    <td data-label={column}>{children(edge)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          )
        }
      </Loaded>
    </section>
  )
}

function EdgeLink({ id, hostports, refused_hostports, description }: Edge) {
  return (
    <span className="name">
      <Link to={`/edges/${id}`}>{hostports.join(', ') || id}</Link>
      {refused_hostports && <Badge tone="refused">{refused_hostports.length} not in force</Badge>}
      {description && <span className="fine">{description}</span>}
    </span>
  )
}
