import { useQuery } from '@tanstack/react-query'
import { Link } from 'react-router'
import { $api, type Shapes } from '../../api/client.ts'
import { queries } from '../../api/queries.ts'
import { traffic } from '../../traffic.ts'
import { DataTable } from '../../ui/data_table.tsx'
import { Loaded } from '../../ui/loading.tsx'
import { Section } from '../../ui/section.tsx'
import { Empty } from '../../ui/states.tsx'
import type { Column } from '../../ui/table_model.ts'
import { Ago } from '../../ui/time.tsx'

type Refusal = Shapes['IpRefusal']
type Row = Refusal & { count: number; by: string }

const limit = 100
const columns: Column<Row>[] = [
  {
    title: 'Address',
    className: 'a1',
    isRowHead: true,
    cell: ({ source_ip, type }) =>
      source_ip ? (
        <Link className="row-link mono" to={`/check?ip=${encodeURIComponent(source_ip)}&target=${type}`}>
          {source_ip}
        </Link>
      ) : (
        'Unknown'
      ),
  },
  {
    title: 'Wanted to reach',
    className: 'b1',
    cell: ({ type, operation, by }) => (
      <span className="two">
        <span>
          {traffic[type].title} <span className="mono soft">{operation}</span>
        </span>
        <small>{by}</small>
      </span>
    ),
  },
  { title: 'Refused', className: 'number a2', cell: ({ count }) => count },
  { title: 'Last', className: 'b2', cell: ({ created_at }) => <Ago at={created_at} /> },
]

/** Who is refused by the API, the dashboard and agents. Edges report counts, not addresses. */
export function RefusedAddresses() {
  const restrictions = useQuery(queries.restrictions()).data
  const refusals = $api.useQuery('get', '/ip_refusals', { params: { query: { limit } } }, { refetchInterval: 15_000 })
  const nameOf = (id: string) => restrictions?.find((known) => known.id === id)?.description ?? id
  return (
    <Section title="Refused addresses" note={`among the latest ${limit} refusals`} className="c7">
      <Loaded query={refusals} lines={5}>
        {({ ip_refusals }) => {
          const rows = byAddress(ip_refusals, nameOf)
          return rows.length === 0 ? (
            <div className="frame">
              <Empty title="No address was refused">By the API, the dashboard or agents.</Empty>
            </div>
          ) : (
            <DataTable
              label="Refused addresses"
              rows={rows}
              keyOf={({ source_ip, type }) => `${source_ip} ${type}`}
              columns={columns}
              isTwoLine
            />
          )
        }}
      </Loaded>
    </Section>
  )
}

/** The latest refusal of each address and traffic, with how many there are. */
function byAddress(refusals: readonly Refusal[], nameOf: (id: string) => string): Row[] {
  const rows = new Map<string, Row>()
  for (const refusal of refusals) {
    const key = `${refusal.source_ip} ${refusal.type}`
    const row = rows.get(key)
    if (row) row.count++
    else {
      const by = refusal.ip_policy_rule ? 'A deny rule of' : 'No rule allows it in'
      rows.set(key, { ...refusal, count: 1, by: `${by} ${nameOf(refusal.ip_restriction.id)}` })
    }
  }
  return [...rows.values()].slice(0, 6)
}
