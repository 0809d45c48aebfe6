import { Link } from 'react-router'
import { DataTable } from '../../ui/data_table.tsx'
import { Section } from '../../ui/section.tsx'
import { Empty } from '../../ui/states.tsx'
import { StatusCell } from '../../ui/status.tsx'
import type { Column } from '../../ui/table_model.ts'
import type { Group } from '../edges/backend_options.ts'
import { BackendLink } from './backend.tsx'
import type { Use, Uses } from './use_uses.ts'

type Row = Use & { key: string; group?: Group }

/** The routes and TCP edges that forward to a backend, and the groups through which they do. */
export function UsedBy({ uses }: { uses: Uses }) {
  const rows: Row[] = [
    ...uses.direct.map((use) => ({ ...use, key: use.id })),
    ...uses.groups.flatMap(({ group, uses: indirect }) =>
      indirect.map((use) => ({ ...use, key: `${group.backend.id} ${use.id}`, group })),
    ),
  ]
  const idle = uses.groups.filter((each) => each.uses.length === 0)
  return (
    <Section title="Used by" note={rows.length || undefined}>
      {rows.length === 0 ? (
        <div className="frame">
          <Empty title="No route and no TCP edge">
            {uses.groups.length > 0 ? 'Nothing uses the groups that it is in.' : 'Nothing is forwarded here.'}
          </Empty>
        </div>
      ) : (
        <DataTable
          label="Used by"
          rows={rows}
          keyOf={({ key }) => key}
          columns={uses.groups.length > 0 ? [...columns, through] : columns}
          isTwoLine
        />
      )}
      {idle.length > 0 && (
        <p className="fine">
          Also in{' '}
          {idle.map(({ group: { backend } }, index) => (
            <span key={backend.id}>
              {index > 0 && ', '}
              <BackendLink id={backend.id} />
            </span>
          ))}
          , which nothing uses.
        </p>
      )}
    </Section>
  )
}

const columns: readonly Column<Row>[] = [
  {
    title: 'Edge and route',
    className: 'a1',
    isRowHead: true,
    cell: ({ edgeId, name, match, enabled }) => (
      <span className="two">
        <Link to={`/edges/${edgeId}`}>{name}</Link>
        <small>
          {match ? <span className="mono">{match}</span> : 'TCP'}
          {!enabled && ', forwarding is off'}
        </small>
      </span>
    ),
  },
  { title: 'State', className: 'c1', width: '34%', cell: ({ status }) => <StatusCell status={status} /> },
  {
    title: 'Addresses',
    className: 'b1',
    cell: ({ isOpen }) => (isOpen ? <span className="soft">Open</span> : 'Restricted'),
  },
]

const through: Column<Row> = {
  title: 'Through',
  className: 'b2',
  cell: ({ group }) => (group ? <BackendLink id={group.backend.id} /> : <span className="soft">Directly</span>),
}
