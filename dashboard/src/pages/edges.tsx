import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { queries } from '../api/queries.ts'
import { Link } from '../router.tsx'
import { Badge } from '../ui/badge.tsx'
import { Button } from '../ui/button.tsx'
import { Loaded } from '../ui/loading.tsx'
import { Backends } from './edges/backends.tsx'
import { CreateEdge } from './edges/create.tsx'
import { HttpsDetail } from './edges/https.tsx'
import { TcpDetail } from './edges/tcp.tsx'

export function Edges({ id }: { id?: string }) {
  if (id?.startsWith('edgtcp_')) return <TcpDetail key={id} id={id} />
  if (id) return <HttpsDetail key={id} id={id} />
  return <EdgeList />
}

function EdgeList() {
  const tcp = useQuery(queries.tcpEdges())
  const https = useQuery(queries.httpsEdges())
  const [creating, setCreating] = useState<'tcp' | 'https'>()
  return (
    <>
      <p className="lead">
        An edge is where traffic arrives. TCP edges pass connections on; HTTPS edges choose by path among their routes.
      </p>
      <section className="card" aria-labelledby="https-edges">
        <header>
          <h2 id="https-edges">HTTPS edges</h2>
          <Button icon="plus" onPress={() => setCreating('https')}>
            Create an HTTPS edge
          </Button>
        </header>
        <Loaded query={https} lines={3}>
          {(edges) =>
            edges.length === 0 ? (
              <p className="empty">No HTTPS edge yet.</p>
            ) : (
              <table className="stack">
                <thead>
                  <tr>
                    <th scope="col">Edge</th>
                    <th scope="col">Routes</th>
                  </tr>
                </thead>
                <tbody>
                  {edges.map(({ id, hostports, description, routes }) => (
                    <tr key={id}>
                      <th scope="row">
                        <EdgeLink id={id} hostports={hostports} description={description} />
                      </th>
                      <td data-label="Routes">
                        {routes.length === 0 && <Badge tone="warned">No route: every request is refused</Badge>}
                        <span className="mono">{routes.map(({ match }) => match).join('  ')}</span>
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            )
          }
        </Loaded>
      </section>
      <section className="card" aria-labelledby="tcp-edges">
        <header>
          <h2 id="tcp-edges">TCP edges</h2>
          <Button icon="plus" onPress={() => setCreating('tcp')}>
            Create a TCP edge
          </Button>
        </header>
        <Loaded query={tcp} lines={3}>
          {(edges) =>
            edges.length === 0 ? (
              <p className="empty">No TCP edge yet.</p>
            ) : (
              <table className="stack">
                <thead>
                  <tr>
                    <th scope="col">Edge</th>
                    <th scope="col">Addresses</th>
                  </tr>
                </thead>
                <tbody>
                  {edges.map(({ id, hostports, description, backend, ip_restriction }) => (
                    <tr key={id}>
                      <th scope="row">
                        <EdgeLink id={id} hostports={hostports} description={description} />
                      </th>
                      <td>
                        {!backend?.enabled && <Badge tone="warned">No backend</Badge>}{' '}
                        {ip_restriction?.enabled ? (
                          <Badge tone="allowed">Restricted</Badge>
                        ) : (
                          <Badge tone="neutral">Open to every address</Badge>
                        )}
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            )
          }
        </Loaded>
      </section>
      <Backends />
      {creating && <CreateEdge kind={creating} onClose={() => setCreating(undefined)} />}
    </>
  )
}

type EdgeLinkProps = { id: string; hostports: readonly string[]; description?: string }

function EdgeLink({ id, hostports, description }: EdgeLinkProps) {
  return (
    <span className="name">
      <Link to={`/edges/${id}`}>{hostports.join(', ') || id}</Link>
      {description && <span className="fine">{description}</span>}
    </span>
  )
}
