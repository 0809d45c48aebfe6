import { useQuery } from '@tanstack/react-query'
import { Link } from 'react-router'
import type { Shapes } from '../../api/client.ts'
import { queries } from '../../api/queries.ts'
import { refuses, type TrafficType, traffic, trafficTypes } from '../../traffic.ts'
import { Badge } from '../../ui/badge.tsx'
import { DataTable } from '../../ui/data_table.tsx'
import { Loaded } from '../../ui/loading.tsx'
import { Section } from '../../ui/section.tsx'
import type { Column } from '../../ui/table_model.ts'

type Restriction = Shapes['IpRestriction']
type Counts = { refused: number; warned: number }
/** Number of edges and routes with policies of their own, and of all. */
type Own = { guarded: number; all: number }
type Row = { type: TrafficType; restrictions: Restriction[]; counts: Counts | undefined; own: Own | undefined }

const count = new Intl.NumberFormat('en')
const figure = (value: number | undefined) => (value ? count.format(value) : <span className="soft">–</span>)

const columns: Column<Row>[] = [
  {
    title: 'Traffic',
    className: 'a1',
    isRowHead: true,
    cell: ({ type, restrictions, own }) => (
      <span className="two">
        <span>{traffic[type].title}</span>
        <small>
          <Names restrictions={restrictions} own={own} />
        </small>
      </span>
    ),
  },
  { title: 'Mode', className: 'a2', cell: ({ restrictions, own }) => <Mode restrictions={restrictions} own={own} /> },
  {
    title: 'Refused',
    className: 'number b2',
    cell: ({ counts }) => (
      <>
        {figure(counts?.refused)} {counts?.refused ? <span className="show-small">refused</span> : null}
      </>
    ),
  },
  { title: 'Warned', className: 'number', cell: ({ counts }) => figure(counts?.warned) },
]

/** For each type of traffic, whether anything is refused, and the counts of the last day. */
export function InForce({ isWide }: { isWide: boolean }) {
  const restrictions = useQuery(queries.restrictions())
  const total = useQuery(queries.activity()).data?.total
  const own = useOwnPolicies()
  return (
    <Section
      title="What is restricted"
      note="counts of 24 hours"
      className={isWide ? 'c12' : 'c5'}
      action={<Link to="/restrictions">IP restrictions</Link>}
    >
      <Loaded query={restrictions} lines={5}>
        {(all) => (
          <DataTable
            label="What is restricted"
            rows={trafficTypes.map((type) => ({
              type,
              restrictions: all.filter((restriction) => restriction.type === type),
              counts: total?.[type],
              own: type === 'endpoints' ? own : undefined,
            }))}
            keyOf={({ type }) => type}
            columns={columns}
            isTwoLine
          />
        )}
      </Loaded>
    </Section>
  )
}

/** Refusals by edges' own policies, without a restriction of the account. */
function useOwnPolicies(): Own | undefined {
  const https = useQuery(queries.httpsEdges()).data
  const tcp = useQuery(queries.tcpEdges()).data
  if (!https || !tcp) return undefined
  const places = [...https.flatMap(({ routes }) => routes), ...tcp]
  return { guarded: places.filter(({ ip_restriction }) => refuses(ip_restriction)).length, all: places.length }
}

type Restricted = { restrictions: readonly Restriction[]; own: Own | undefined }

function Names({ restrictions, own }: Restricted) {
  const [first, ...more] = restrictions
  if (!first && own?.guarded)
    return (
      <Link to="/edges">
        Own policies of {own.guarded} of {own.all} {own.all === 1 ? 'route or edge' : 'routes and edges'}
      </Link>
    )
  if (!first) return <>No restriction</>
  return (
    <>
      <Link to={`/restrictions/${first.id}`}>{first.description ?? first.id}</Link>
      {more.length > 0 && ` and ${more.length} more`}
    </>
  )
}

function Mode({ restrictions, own }: Restricted) {
  if (restrictions.some(({ enforced }) => enforced)) return <Badge tone="allowed">Enforced</Badge>
  // A route's own policies are always enforced, so traffic that some routes refuse is not open.
  if (own?.guarded) return <Badge tone="allowed">{own.guarded === own.all ? 'Enforced' : 'Partly enforced'}</Badge>
  if (restrictions.length) return <Badge tone="warned">Warns only</Badge>
  return <Badge tone="neutral">Open</Badge>
}
