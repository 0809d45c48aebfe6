import { useQuery } from '@tanstack/react-query'
import { useMemo, useState } from 'react'
import { Link } from 'react-router'
import type { Shapes } from '../../api/client.ts'
import { queries } from '../../api/queries.ts'
import { traffic } from '../../traffic.ts'
import { Badge } from '../../ui/badge.tsx'
import { DataTable } from '../../ui/data_table.tsx'
import { nameColumn } from '../../ui/name_column.tsx'
import { Empty } from '../../ui/states.tsx'
import type { Column } from '../../ui/table_model.ts'
import { Ago } from '../../ui/time.tsx'
import { Toolbar } from '../../ui/toolbar.tsx'
import { useUrlState } from '../../ui/use_url_state.ts'
import type { Restriction } from './change.ts'
import { WouldRefuse } from './evidence.tsx'
import { RestrictionMenu } from './menu.tsx'

type View = 'all' | 'enforced' | 'warns'
type Props = { restrictions: readonly Restriction[]; isAdmin: boolean }

const isOfView: Record<View, (restriction: Restriction) => boolean> = {
  all: () => true,
  enforced: ({ enforced }) => enforced,
  warns: ({ enforced }) => !enforced,
}

/** Which restrictions are enforced, and how many addresses the others would refuse. */
export function RestrictionTable({ restrictions, isAdmin }: Props) {
  const policies = useQuery(queries.policies()).data
  const [search, setSearch] = useState('')
  const [view, setView] = useUrlState<View>('show', 'all')
  const columns = useMemo(() => columnsFor(policies ?? [], isAdmin), [policies, isAdmin])
  const wanted = search.trim().toLowerCase()
  const found = restrictions
    .filter(isOfView[view] ?? isOfView.all)
    .filter(({ id, description = '' }) => `${description} ${id}`.toLowerCase().includes(wanted))
  const chip = (value: View, label: string) => ({ value, label, count: restrictions.filter(isOfView[value]).length })
  return (
    <>
      <Toolbar
        search={search}
        onSearch={setSearch}
        placeholder="Name or ID"
        chosen={view}
        onChoose={setView}
        chips={[chip('all', 'All restrictions'), chip('enforced', 'Enforced'), chip('warns', 'Warn only')]}
      />
      {found.length === 0 ? (
        <div className="frame">
          <Empty title="No matching restrictions" />
        </div>
      ) : (
        <DataTable
          label="IP restrictions"
          rows={found}
          keyOf={({ id }) => id}
          columns={columns}
          initialSort="Traffic"
          isTwoLine
        />
      )}
    </>
  )
}

const columnsFor = (policies: readonly Shapes['IpPolicy'][], isAdmin: boolean): Column<Restriction>[] => [
  nameColumn('Restriction', '/restrictions'),
  {
    title: 'Traffic',
    className: 'b1',
    sortBy: ({ type }) => traffic[type].title,
    cell: ({ type }) => (
      <span className="two">
        <span>{traffic[type].title}</span>
        <small>{traffic[type].what}</small>
      </span>
    ),
  },
  {
    title: 'Admits',
    className: 'hide-small',
    cell: ({ ip_policies }) => (
      <>
        {ip_policies.map(({ id }, index) => (
          <span key={id}>
            {index > 0 && ', '}
            <Link to={`/policies/${id}`}>{policies.find((policy) => policy.id === id)?.description ?? id}</Link>
          </span>
        ))}
      </>
    ),
  },
  {
    title: 'Mode',
    className: 'c1',
    sortBy: ({ enforced }) => Number(enforced),
    cell: ({ enforced }) =>
      enforced ? <Badge tone="allowed">Enforced</Badge> : <Badge tone="warned">Warns only</Badge>,
  },
  ...(isAdmin
    ? [
        {
          title: 'Would be refused',
          className: 'b2',
          cell: (restriction: Restriction) =>
            restriction.enforced ? <span className="soft">–</span> : <WouldRefuse restriction={restriction} />,
        },
      ]
    : []),
  {
    title: 'Created',
    className: 'low',
    sortBy: ({ created_at }) => Date.parse(created_at),
    cell: ({ created_at }) => <Ago at={created_at} />,
  },
  ...(isAdmin
    ? [
        {
          title: 'Actions',
          titleHidden: true,
          className: 'menu-cell a2',
          width: '44px',
          cell: (restriction: Restriction) => <RestrictionMenu restriction={restriction} />,
        },
      ]
    : []),
]
