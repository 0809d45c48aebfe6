import { useQuery } from '@tanstack/react-query'
import { useMemo, useState } from 'react'
import { Link } from 'react-router'
import { $api, type Shapes } from '../api/client.ts'
import { useMayChange } from '../api/may_change.ts'
import { queries } from '../api/queries.ts'
import { traffic } from '../traffic.ts'
import { Button } from '../ui/button.tsx'
import { DataTable } from '../ui/data_table.tsx'
import { Loaded } from '../ui/loading.tsx'
import { PageHeader } from '../ui/page_header.tsx'
import { Empty, NotForMembers } from '../ui/states.tsx'
import type { Column } from '../ui/table_model.ts'
import { Ago } from '../ui/time.tsx'
import { AllowAgain } from './newly_refused/allow_again.tsx'
import { Cause } from './newly_refused/cause.tsx'
import { type Names, useNames } from './traffic/names.ts'

type Refused = Shapes['NewlyRefusedAddress']

/** What the address wanted to reach, as the page of a check has it in its link. */
export const targetOf = ({ type, target }: Refused): string => target?.id ?? type

export function NewlyRefused() {
  const caller = $api.useQuery('get', '/caller').data
  if (caller && caller.role !== 'admin') return <NotForMembers title="Newly refused" />
  return <List />
}

function List() {
  const [wanted, setWanted] = useState<Refused>()
  const refused = useQuery(queries.newlyRefused())
  const names = useNames()
  const mayChange = useMayChange()
  const columns = useMemo(() => columnsFor(names, mayChange ? setWanted : undefined), [names, mayChange])
  return (
    <>
      <PageHeader
        title="Newly refused"
        summary="Addresses that were let in within the last seven days, were refused within the last 24 hours, and would be refused now."
      />
      <Loaded query={refused} lines={6}>
        {({ newly_refused_addresses: rows, next_page_uri }) =>
          rows.length === 0 ? (
            <div className="frame">
              <Empty title="No address was shut out">
                No address that was let in within the last seven days is refused now.
              </Empty>
            </div>
          ) : (
            <DataTable
              label="Newly refused addresses"
              rows={rows}
              keyOf={(row) => `${row.ip} ${targetOf(row)}`}
              columns={columns}
              isTwoLine
              foot={next_page_uri && `The latest ${rows.length}. There are more: gatehouse refusals new --all`}
            />
          )
        }
      </Loaded>
      {wanted && <AllowAgain refused={wanted} names={names} onClose={() => setWanted(undefined)} />}
    </>
  )
}

function placeOf({ type, target, edge }: Refused, names: Names): string {
  if (!target) return traffic[type].title
  return edge ? `${names.edge(edge.id)} ${names.route(target.id) ?? target.id}` : names.edge(target.id)
}

const columnsFor = (names: Names, onAllow: ((refused: Refused) => void) | undefined): Column<Refused>[] => [
  {
    title: 'Address',
    className: 'a1',
    isRowHead: true,
    cell: (row) => (
      <Link className="row-link mono" to={`/check?ip=${encodeURIComponent(row.ip)}&target=${targetOf(row)}`}>
        {row.ip}
      </Link>
    ),
  },
  {
    title: 'Wanted to reach',
    className: 'b1',
    cell: (row) => (
      <span className="two">
        <span>{placeOf(row, names)}</span>
        <small>{byOf(row, names)}</small>
      </span>
    ),
  },
  { title: 'Because', className: 'c1', cell: ({ cause }) => <Cause cause={cause} names={names} /> },
  { title: 'Last let in', className: 'low', cell: ({ last_allowed_at }) => <Ago at={last_allowed_at} /> },
  { title: 'Last refused', className: 'b2', cell: ({ last_refused_at }) => <Ago at={last_refused_at} /> },
  {
    title: 'Actions',
    titleHidden: true,
    className: 'a2 number',
    cell: (row) =>
      onAllow && (
        <Button isSmall onPress={() => onAllow(row)}>
          {row.decided_by.ip_policy_rule ? 'Change rule…' : 'Allow this address…'}
        </Button>
      ),
  },
]

function byOf({ decided_by: { ip_restriction, ip_policy, ip_policy_rule } }: Refused, names: Names): string {
  if (ip_policy_rule && ip_policy) return `A deny rule of ${names.policy(ip_policy.id)}`
  return `No rule allows it in ${ip_restriction ? names.restriction(ip_restriction.id) : 'its own policies'}`
}
