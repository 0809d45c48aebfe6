import { useQuery } from '@tanstack/react-query'
import { useMemo, useState } from 'react'
import { $api } from '../api/client.ts'
import { queries } from '../api/queries.ts'
import { Button } from '../ui/button.tsx'
import { DataTable } from '../ui/data_table.tsx'
import { Loaded } from '../ui/loading.tsx'
import { PageHeader } from '../ui/page_header.tsx'
import { State } from '../ui/state.tsx'
import { Empty } from '../ui/states.tsx'
import type { Column } from '../ui/table_model.ts'
import { type AccessTest, DeleteTest, EditTest } from './access_tests/forms.tsx'

type Open = { kind: 'create' } | { kind: 'edit' | 'delete'; test: AccessTest }

export function AccessTests() {
  const tests = useQuery(queries.accessTests())
  const isAdmin = $api.useQuery('get', '/caller').data?.role === 'admin'
  const [open, setOpen] = useState<Open>()
  const close = () => setOpen(undefined)
  const columns = useMemo(() => columnsFor(isAdmin, setOpen), [isAdmin])
  return (
    <>
      <PageHeader title="Access tests" summary={tests.data && summaryOf(tests.data)}>
        {isAdmin && (
          <Button kind="primary" icon="plus" onPress={() => setOpen({ kind: 'create' })}>
            Create access test
          </Button>
        )}
      </PageHeader>
      <Loaded query={tests} lines={4}>
        {(rows) =>
          rows.length === 0 ? (
            <div className="frame">
              <Empty title="No access tests yet">
                An access test says that an address must be let in somewhere, or must not. Changes that would break it
                are refused.
              </Empty>
            </div>
          ) : (
            <DataTable label="Access tests" rows={rows} keyOf={({ id }) => id} columns={columns} isTwoLine />
          )
        }
      </Loaded>
      {open?.kind === 'create' && <EditTest onClose={close} />}
      {open?.kind === 'edit' && <EditTest test={open.test} onClose={close} />}
      {open?.kind === 'delete' && <DeleteTest test={open.test} onClose={close} />}
    </>
  )
}

const healths = { passed: 'up', failed: 'down', unknown: 'unknown' } as const
const words = { passed: 'Passed', failed: 'Failed', unknown: 'Unknown' } as const

const columnsFor = (isAdmin: boolean, setOpen: (open: Open) => void): Column<AccessTest>[] => [
  {
    title: 'Address',
    className: 'a1',
    isRowHead: true,
    sortBy: ({ address }) => address,
    cell: ({ address, description }) => (
      <span className="two">
        <span className="mono">{address}</span>
        {description && <small className="hide-small">{description}</small>}
      </span>
    ),
  },
  {
    title: 'Expected',
    className: 'b1',
    sortBy: ({ expect }) => expect,
    cell: ({ expect, target }) => (
      <span className="two">
        <span>{expect === 'allowed' ? 'Allowed' : 'Refused'}</span>
        <small>{placeOf(target)}</small>
      </span>
    ),
  },
  {
    title: 'Result',
    className: 'b2',
    sortBy: ({ result }) => result,
    cell: ({ result, reason }) => (
      <span className="two">
        <State health={healths[result]}>{words[result]}</State>
        <small className="hide-small">{reason}</small>
      </span>
    ),
  },
  {
    title: 'Actions',
    titleHidden: true,
    className: 'a2',
    width: '160px',
    cell: (test) =>
      isAdmin ? (
        <span className="tags">
          <Button kind="quiet" aria-label={`Edit ${nameOf(test)}`} onPress={() => setOpen({ kind: 'edit', test })}>
            Edit
          </Button>
          <Button kind="quiet" aria-label={`Delete ${nameOf(test)}`} onPress={() => setOpen({ kind: 'delete', test })}>
            Delete
          </Button>
        </span>
      ) : null,
  },
]

const nameOf = ({ description, address }: AccessTest): string => description ?? address

function placeOf({ type, edge_id, route_id, path }: AccessTest['target']): string {
  if (type === 'api') return 'by the API'
  if (type === 'dashboard') return 'by the dashboard'
  return type === 'edge' ? `at ${edge_id ?? 'a TCP edge'}` : `at ${path} of ${route_id ?? 'a route'}`
}

function summaryOf(tests: readonly AccessTest[]): string {
  const total = `${tests.length} ${tests.length === 1 ? 'test' : 'tests'}.`
  const count = (result: AccessTest['result']) => tests.filter((test) => test.result === result).length
  const [failed, unknown] = [count('failed'), count('unknown')]
  if (tests.length === 0) return 'Access tests keep changes from letting in or shutting out the wrong address.'
  if (failed + unknown === 0) return `${total} ${tests.length === 1 ? 'It passes.' : 'All pass.'}`
  return `${total} ${failed} failed, ${unknown} unknown.`
}
