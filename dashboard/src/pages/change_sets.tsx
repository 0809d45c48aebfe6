import { useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { Link, useParams } from 'react-router'
import type { Shapes } from '../api/client.ts'
import { queries } from '../api/queries.ts'
import { isDraft } from '../draft/store.ts'
import { DataTable } from '../ui/data_table.tsx'
import { Loaded } from '../ui/loading.tsx'
import { PageHeader } from '../ui/page_header.tsx'
import { Empty } from '../ui/states.tsx'
import type { Column } from '../ui/table_model.ts'
import { Ago } from '../ui/time.tsx'
import { ChangeSetDetail } from './change_sets/detail.tsx'
import { nameOf, StateOf, useNameOfPerson } from './change_sets/state.tsx'

type ChangeSet = Shapes['ChangeSetSummary']

export function ChangeSets() {
  const { id } = useParams()
  return id ? <ChangeSetDetail key={id} id={id} /> : <ChangeSetList />
}

function ChangeSetList() {
  const found = useQuery(queries.changeSets())
  const person = useNameOfPerson()
  const columns = useMemo(() => columnsOf(person), [person])
  const waiting = found.data?.change_sets.filter((each) => each.state === 'waiting' && !isDraft(each)).length ?? 0
  return (
    <>
      <PageHeader
        title="Change sets"
        summary={found.data && summaryOf(waiting)}
        tools={<Link to="/settings#approval">What needs approval</Link>}
      />
      <Loaded query={found} lines={4}>
        {({ change_sets }) =>
          change_sets.length === 0 ? (
            <div className="frame">
              <Empty title="No change sets yet">
                Changes that need approval appear here, those that a program has proposed, and what you add to a draft
                in a form.
              </Empty>
            </div>
          ) : (
            <DataTable label="Change sets" rows={change_sets} keyOf={({ id }) => id} columns={columns} isTwoLine />
          )
        }
      </Loaded>
    </>
  )
}

const summaryOf = (waiting: number): string =>
  waiting === 0 ? 'No change waits for approval.' : `${waiting} ${waiting === 1 ? 'waits' : 'wait'} for approval.`

const columnsOf = (person: (id: string) => string): Column<ChangeSet>[] => [
  {
    title: 'Change set',
    className: 'a1',
    width: '42%',
    isRowHead: true,
    sortBy: nameOf,
    cell: (changeSet) => (
      <span className="two">
        <Link className="row-link" to={`/change-sets/${changeSet.id}`}>
          {nameOf(changeSet)}
        </Link>
        <small className="mono hide-small">{changeSet.id}</small>
      </span>
    ),
  },
  { title: 'State', className: 'b1', sortBy: ({ state }) => state, cell: (each) => <StateOf changeSet={each} /> },
  {
    title: 'Author',
    className: 'hide-small',
    sortBy: ({ author_id }) => person(author_id),
    cell: ({ author_id }) => person(author_id),
  },
  {
    title: 'Created',
    className: 'b2',
    sortBy: ({ created_at }) => Date.parse(created_at),
    cell: ({ created_at }) => <Ago at={created_at} />,
  },
]
