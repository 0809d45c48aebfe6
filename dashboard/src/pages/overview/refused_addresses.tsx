import { useQuery } from '@tanstack/react-query'
import { Link } from 'react-router'
import { $api, type Shapes } from '../../api/client.ts'
import { every } from '../../api/every.ts'
import { queries } from '../../api/queries.ts'
import { traffic } from '../../traffic.ts'
import { DataTable } from '../../ui/data_table.tsx'
import { Section } from '../../ui/section.tsx'
import { Empty } from '../../ui/states.tsx'
import type { Column } from '../../ui/table_model.ts'
import { Ago } from '../../ui/time.tsx'
import { type Names, useNames } from '../traffic/names.ts'

type Refusal = Shapes['IpRefusal']
type Request = Shapes['Request']
type Row = {
  key: string
  ip: string | null
  target: string
  /** A path or an operation. */
  what: string
  by: string
  count: number
  at: string
  to: string
}

const limit = 100
const columns: Column<Row>[] = [
  {
    title: 'Address',
    className: 'a1',
    isRowHead: true,
    cell: ({ ip, to }) => (
      <Link className="row-link mono" to={to}>
        {ip ?? 'Unknown'}
      </Link>
    ),
  },
  {
    title: 'Wanted to reach',
    className: 'b1',
    cell: ({ target, what, by }) => (
      <span className="two">
        <span className="clip">
          {target} <span className="mono soft">{what}</span>
        </span>
        <small className="clip">{by}</small>
      </span>
    ),
  },
  { title: 'Refused', className: 'number a2', cell: ({ count }) => count },
  { title: 'Last', className: 'b2', cell: ({ at }) => <Ago at={at} /> },
]

/** Addresses refused by edges, the API, the dashboard and agents, each with a link to its latest refusal. */
export function RefusedAddresses() {
  const restrictions = useQuery(queries.restrictions()).data
  const names = useNames()
  const again = { refetchInterval: every(20_000) }
  const calls = $api.useQuery('get', '/ip_refusals', { params: { query: { limit } } }, again).data
  const requests = $api.useQuery('get', '/requests', { params: { query: { outcome: 'refused', limit } } }, again).data
  const nameOf = (id: string) => restrictions?.find((known) => known.id === id)?.description ?? id
  const rows = ranked([
    ...(requests?.requests ?? []).map((each) => ofEdge(each, names)),
    ...(calls?.ip_refusals ?? []).map((each) => ofApi(each, nameOf)),
  ])
  return (
    <Section
      title="Refused addresses"
      note="among the latest refusals"
      className="c7"
      action={<Link to="/traffic?show=refused">View all in Traffic</Link>}
    >
      {rows.length === 0 ? (
        <div className="frame">
          <Empty title="No address was refused">By edges, the API, the dashboard or agents.</Empty>
        </div>
      ) : (
        <DataTable label="Refused addresses" rows={rows} keyOf={({ key }) => key} columns={columns} isTwoLine />
      )}
    </Section>
  )
}

const byRule = (rule: unknown): string => (rule ? 'A deny rule of' : 'No rule allows it in')

function ofEdge(request: Request, names: Names): Row {
  const { source_ip: ip, edge, host, path, ip_policy_rule, ip_policy, ip_restriction, created_at } = request
  const policy = ip_policy ? names.policy(ip_policy.id) : ip_restriction ? names.restriction(ip_restriction.id) : ''
  return {
    key: `${ip} ${edge?.id}`,
    ip,
    target: host ?? (edge ? names.edge(edge.id) : 'Edge'),
    what: path ?? '',
    by: policy ? `${byRule(ip_policy_rule)} ${policy}` : 'No rule allows it',
    count: 1,
    at: created_at,
    to: `/traffic/${request.id}`,
  }
}

function ofApi(
  { source_ip: ip, type, operation, ip_policy_rule, ip_restriction, created_at }: Refusal,
  nameOf: (id: string) => string,
): Row {
  return {
    key: `${ip} ${type}`,
    ip,
    target: traffic[type].title,
    what: operation ?? '',
    by: `${byRule(ip_policy_rule)} ${nameOf(ip_restriction.id)}`,
    count: 1,
    at: created_at,
    to: ip ? `/check?ip=${encodeURIComponent(ip)}&target=${type}` : '/check',
  }
}

/** The latest refusal of each address and target, with their number. */
function ranked(all: readonly Row[]): Row[] {
  const rows = new Map<string, Row>()
  for (const row of all.toSorted((a, b) => (a.at < b.at ? 1 : -1))) {
    const newest = rows.get(row.key)
    if (newest) newest.count++
    else rows.set(row.key, { ...row })
  }
  return [...rows.values()].slice(0, 6)
}
