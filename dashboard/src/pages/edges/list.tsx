import { Link } from 'react-router'
import type { Shapes } from '../../api/client.ts'
import { refuses } from '../../traffic.ts'
import { Badge } from '../../ui/badge.tsx'
import { rankOf, type Status, StatusCell } from '../../ui/status.tsx'
import type { Column } from '../../ui/table_model.ts'
import { Ago } from '../../ui/time.tsx'

export type ListedEdge = {
  id: string
  kind: 'https' | 'tcp'
  name: string
  hostports: readonly string[]
  routes: readonly string[]
  status: Status | undefined
  notInForce: number
  isOpen: boolean
  restricted: number
  created_at: string
  /** Searchable text. */
  text: string
}

type Common = {
  id: string
  created_at: string
  description?: string
  hostports: readonly string[]
  refused_hostports?: readonly object[]
  status?: Status
}

const common = ({ id, created_at, description, hostports, refused_hostports = [], status }: Common) => ({
  id,
  status,
  created_at,
  hostports,
  name: description ?? (hostports.join(', ') || id),
  notInForce: refused_hostports.length,
})

export function listed(https: readonly Shapes['HttpsEdge'][], tcp: readonly Shapes['TcpEdge'][]): ListedEdge[] {
  return [
    ...https.map((edge): ListedEdge => {
      const routes = edge.routes.map(({ match }) => match)
      const restricted = edge.routes.filter(({ ip_restriction }) => refuses(ip_restriction)).length
      return {
        ...common(edge),
        kind: 'https',
        routes,
        restricted,
        isOpen: restricted < routes.length,
        text: [edge.id, edge.description, ...edge.hostports, ...routes].join(' ').toLowerCase(),
      }
    }),
    ...tcp.map((edge): ListedEdge => {
      const isRestricted = refuses(edge.ip_restriction)
      return {
        ...common(edge),
        kind: 'tcp',
        routes: [],
        restricted: Number(isRestricted),
        isOpen: !isRestricted,
        text: [edge.id, edge.description, ...edge.hostports].join(' ').toLowerCase(),
      }
    }),
  ]
}

export const edgeColumns: readonly Column<ListedEdge>[] = [
  {
    title: 'Edge',
    className: 'a1',
    width: '30%',
    isRowHead: true,
    sortBy: ({ name }) => name,
    cell: ({ id, name, hostports, notInForce }) => (
      <span className="two">
        <span className="clip">
          <Link className="row-link" to={`/edges/${id}`}>
            {name}
          </Link>{' '}
          {notInForce > 0 && <Badge tone="refused">{notInForce} not in force</Badge>}
        </span>
        {name !== hostports.join(', ') && <small className="mono clip">{hostports.join(', ')}</small>}
      </span>
    ),
  },
  {
    title: 'Kind',
    className: 'hide-small',
    width: '90px',
    sortBy: ({ kind }) => kind,
    cell: ({ kind }) => <span className="tag">{kind === 'https' ? 'HTTPS' : 'TCP'}</span>,
  },
  {
    title: 'Routes',
    className: 'b1',
    sortBy: ({ routes }) => routes.length,
    cell: ({ kind, routes }) =>
      kind === 'tcp' ? <span className="soft">–</span> : <span className="mono clip">{routes.join('  ') || '–'}</span>,
  },
  {
    title: 'State',
    className: 'a2',
    width: '26%',
    sortBy: ({ status }) => rankOf(status),
    cell: ({ status }) => <StatusCell status={status} />,
  },
  {
    title: 'Addresses',
    className: 'b2',
    sortBy: ({ restricted }) => restricted,
    cell: ({ kind, restricted, routes }) => {
      if (restricted === 0) return <span className="soft">Open</span>
      return kind === 'tcp' || restricted === routes.length
        ? 'Restricted'
        : `${restricted} of ${routes.length} restricted`
    },
  },
  {
    title: 'Created',
    className: 'low',
    sortBy: ({ created_at }) => Date.parse(created_at),
    cell: ({ created_at }) => <Ago at={created_at} />,
  },
]
