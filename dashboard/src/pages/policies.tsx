import { useQuery } from '@tanstack/react-query'
import { useMemo, useState } from 'react'
import { Link, useNavigate, useParams } from 'react-router'
import { answerOf, api, type Shapes } from '../api/client.ts'
import { queries, useRefresh } from '../api/queries.ts'
import { Button } from '../ui/button.tsx'
import { DataTable } from '../ui/data_table.tsx'
import { Field } from '../ui/field.tsx'
import { FormDialog } from '../ui/form_dialog.tsx'
import { Loaded } from '../ui/loading.tsx'
import { nameColumn } from '../ui/name_column.tsx'
import { PageHeader } from '../ui/page_header.tsx'
import { Empty } from '../ui/states.tsx'
import type { Column } from '../ui/table_model.ts'
import { Ago } from '../ui/time.tsx'
import { Toolbar } from '../ui/toolbar.tsx'
import { useDraft } from '../ui/use_draft.ts'
import { useOpenOnArrival } from '../ui/use_open_on_arrival.ts'
import { useUrlState } from '../ui/use_url_state.ts'
import { PolicyDetail } from './policies/detail.tsx'
import { StateOfUses, stateOf, type Use, useUsesOf } from './policies/uses.tsx'

export function Policies() {
  const { id } = useParams()
  return id ? <PolicyDetail key={id} id={id} /> : <PolicyList />
}

type Policy = Shapes['IpPolicy']
type View = 'all' | ReturnType<typeof stateOf>

function PolicyList() {
  const policies = useQuery(queries.policies())
  const usesOf = useUsesOf()
  const [isCreating, setCreating] = useState(false)
  useOpenOnArrival(() => setCreating(true))
  return (
    <>
      <PageHeader
        title="IP policies"
        summary="A policy is a named list of allowed and denied ranges. A deny overrides any allow, and an address that no rule allows is refused."
      >
        <Button kind="primary" icon="plus" onPress={() => setCreating(true)}>
          Create policy
        </Button>
      </PageHeader>
      <Loaded query={policies} lines={6}>
        {(rows) => <PolicyTable policies={rows} usesOf={usesOf} onCreate={() => setCreating(true)} />}
      </Loaded>
      {isCreating && <CreatePolicy onClose={() => setCreating(false)} />}
    </>
  )
}

type TableProps = {
  policies: readonly Policy[]
  usesOf: ((policyId: string) => Use[]) | undefined
  onCreate: () => void
}

function PolicyTable({ policies, usesOf, onCreate }: TableProps) {
  const [search, setSearch] = useState('')
  const [view, setView] = useUrlState<View>('show', 'all')
  const columns = useMemo(() => columnsFor(usesOf), [usesOf])
  if (policies.length === 0)
    return (
      <div className="frame">
        <Empty
          title="No policies yet"
          actions={
            <Button icon="plus" onPress={onCreate}>
              Create your first policy
            </Button>
          }
        >
          Create one and add the addresses of your office.
        </Empty>
      </div>
    )
  const stateOfPolicy = ({ id }: Policy) => (usesOf ? stateOf(usesOf(id)) : undefined)
  const count = (state: View) => policies.filter((policy) => stateOfPolicy(policy) === state).length
  const found = policies
    .filter((policy) => view === 'all' || stateOfPolicy(policy) === view)
    .filter(({ id, description = '' }) => `${description} ${id}`.toLowerCase().includes(search.trim().toLowerCase()))
  return (
    <>
      <Toolbar
        search={search}
        onSearch={setSearch}
        placeholder="Name or ID"
        chosen={view}
        onChoose={setView}
        chips={[
          { value: 'all', label: 'All policies', count: policies.length },
          { value: 'enforced', label: 'Enforced', count: count('enforced') },
          { value: 'warns', label: 'Warn only', count: count('warns') },
          { value: 'unused', label: 'Not in use', count: count('unused') },
        ]}
      />
      {found.length === 0 ? (
        <div className="frame">
          <Empty title="No matching policies" />
        </div>
      ) : (
        <DataTable label="IP policies" rows={found} keyOf={({ id }) => id} columns={columns} isTwoLine />
      )}
    </>
  )
}

const columnsFor = (usesOf: TableProps['usesOf']): Column<Policy>[] => [
  nameColumn('Policy', '/policies'),
  { title: 'Mode', className: 'a2', cell: ({ id }) => usesOf && <StateOfUses uses={usesOf(id)} /> },
  {
    title: 'Used by',
    className: 'b1',
    sortBy: ({ id }) => usesOf?.(id).length ?? 0,
    cell: ({ id }) => usesOf && <UsedBy uses={usesOf(id)} />,
  },
  {
    title: 'Created',
    className: 'b2',
    sortBy: ({ created_at }) => Date.parse(created_at),
    cell: ({ created_at }) => <Ago at={created_at} />,
  },
]

function UsedBy({ uses }: { uses: readonly Use[] }) {
  if (uses.length === 0) return <span className="soft">Nothing yet</span>
  return (
    <>
      {uses.slice(0, 3).map(({ to, name }, index) => (
        <span key={`${to} ${name}`}>
          {index > 0 && ', '}
          <Link to={to}>{name}</Link>
        </span>
      ))}
      {uses.length > 3 && <span className="soft"> and {uses.length - 3} more</span>}
    </>
  )
}

function CreatePolicy({ onClose }: { onClose: () => void }) {
  const { values, set, isDirty } = useDraft({ description: '' })
  const navigate = useNavigate()
  const refresh = useRefresh()
  return (
    <FormDialog
      title="Create IP policy"
      action="Create IP policy"
      isDirty={isDirty}
      save={() => answerOf(api.POST('/ip_policies', { body: values }))}
      canDraft
      onSaved={async ({ id }) => {
        await refresh('/ip_policies')
        navigate(`/policies/${id}`)
      }}
      onClose={onClose}
    >
      <Field
        label="Description"
        name="description"
        autoFocus
        value={values.description}
        onChange={set('description')}
        placeholder="offices"
      />
    </FormDialog>
  )
}
