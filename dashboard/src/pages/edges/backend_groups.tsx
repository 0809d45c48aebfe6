import { useState } from 'react'
import { answerOf, api } from '../../api/client.ts'
import { useMayChange } from '../../api/may_change.ts'
import { useRefresh } from '../../api/queries.ts'
import { Confirm } from '../../ui/confirm.tsx'
import { DataTable } from '../../ui/data_table.tsx'
import { Icon } from '../../ui/icons.tsx'
import { MoreMenu } from '../../ui/more_menu.tsx'
import { ProblemNote } from '../../ui/problem.tsx'
import { Section } from '../../ui/section.tsx'
import { Empty } from '../../ui/states.tsx'
import { rankOf, StatusCell } from '../../ui/status.tsx'
import type { Column } from '../../ui/table_model.ts'
import { Unread } from '../../ui/unread.ts'
import { BackendLink } from '../backends/backend.tsx'
import { type Group, kindLabels, nameOfGroup, useFailedGroups, useGroups } from './backend_options.ts'
import { FailoverForm, WeightedForm } from './group_forms.tsx'
import { ResponseForm } from './response_form.tsx'

type Open = { kind: Group['kind']; group?: Group }

/** Groups of backends, and responses that the edge sends itself. */
export function BackendGroups() {
  const groups = useGroups()
  const failed = useFailedGroups()
  const mayChange = useMayChange()
  const [open, setOpen] = useState<Open>()
  const [leaving, setLeaving] = useState<Group>()
  const close = () => setOpen(undefined)
  const columns = columnsFor({
    mayChange,
    onEdit: (group) => setOpen({ kind: group.kind, group }),
    onDelete: setLeaving,
  })
  return (
    <Section
      title="Backend groups and responses"
      action={
        mayChange && (
          <MoreMenu
            label="Create group or response"
            className="button plain"
            groups={() => [
              {
                entries: [
                  { label: 'Weighted backend…', onAction: () => setOpen({ kind: 'weighted' }) },
                  { label: 'Failover backend…', onAction: () => setOpen({ kind: 'failover' }) },
                  { label: 'HTTP response…', onAction: () => setOpen({ kind: 'http_response' }) },
                ],
              },
            ]}
          >
            <Icon name="plus" />
            Create group or response
          </MoreMenu>
        )
      }
    >
      {groups?.length === 0 && (
        <div className="frame">
          <Empty title="None yet">A group keeps serving when one of its backends is down.</Empty>
        </div>
      )}
      {failed && <ProblemNote error={failed.error} retry={() => failed.refetch()} />}
      {groups && groups.length > 0 && (
        <Unread value={failed !== undefined}>
          <DataTable
            label="Backend groups and responses"
            rows={groups}
            keyOf={({ backend }) => backend.id}
            columns={columns}
            initialSort="Name"
          />
        </Unread>
      )}
      {open && <GroupForm {...open} onClose={close} />}
      {leaving && <DeleteGroup group={leaving} onClose={() => setLeaving(undefined)} />}
    </Section>
  )
}

export function GroupForm({ kind, group, onClose }: Open & { onClose: () => void }) {
  if (kind === 'weighted')
    return <WeightedForm backend={group?.kind === kind ? group.backend : undefined} onClose={onClose} />
  if (kind === 'failover')
    return <FailoverForm backend={group?.kind === kind ? group.backend : undefined} onClose={onClose} />
  return <ResponseForm backend={group?.kind === kind ? group.backend : undefined} onClose={onClose} />
}

type Options = { mayChange: boolean; onEdit: (group: Group) => void; onDelete: (group: Group) => void }

const columnsFor = ({ mayChange, onEdit, onDelete }: Options): Column<Group>[] => [
  {
    title: 'Name',
    className: 'a1',
    isRowHead: true,
    sortBy: nameOfGroup,
    cell: ({ backend }) => <BackendLink id={backend.id} />,
  },
  { title: 'Kind', className: 'b1', sortBy: ({ kind }) => kindLabels[kind], cell: ({ kind }) => kindLabels[kind] },
  {
    title: 'State',
    className: 'b2',
    width: '30%',
    sortBy: ({ backend }) => rankOf(backend.status),
    cell: ({ backend }) => <StatusCell status={backend.status} />,
  },
  { title: 'Members', className: 'c1', cell: (group) => <Members group={group} /> },
  ...(mayChange
    ? [
        {
          title: 'Actions',
          titleHidden: true,
          className: 'menu-cell a2',
          cell: (group: Group) => (
            <MoreMenu
              label={`Actions for ${nameOfGroup(group)}`}
              groups={() => [
                {
                  entries: [
                    { label: 'Edit…', icon: 'edit', onAction: () => onEdit(group) },
                    { label: 'Delete…', icon: 'trash', isDanger: true, onAction: () => onDelete(group) },
                  ],
                },
              ]}
            />
          ),
        },
      ]
    : []),
]

function Members({ group }: { group: Group }) {
  if (group.kind === 'http_response') return <span>Status {group.backend.status_code}</span>
  if (group.kind === 'failover')
    return (
      <ol>
        {group.backend.backends.map((id) => (
          <li key={id}>
            <BackendLink id={id} />
          </li>
        ))}
      </ol>
    )
  return (
    <ul>
      {Object.entries(group.backend.backends).map(([id, weight]) => (
        <li key={id}>
          <BackendLink id={id} />: {weight === 0 ? 'drained' : `weight ${weight}`}
        </li>
      ))}
    </ul>
  )
}

const remove = ({ kind, backend: { id } }: Group) => {
  const params = { params: { path: { id } } }
  if (kind === 'weighted') return answerOf(api.DELETE('/backends/weighted/{id}', params))
  if (kind === 'failover') return answerOf(api.DELETE('/backends/failover/{id}', params))
  return answerOf(api.DELETE('/backends/http_response/{id}', params))
}

type DeleteProps = { group: Group; onClose: () => void; onDeleted?: () => void }

export function DeleteGroup({ group, onClose, onDeleted }: DeleteProps) {
  const refresh = useRefresh()
  return (
    <Confirm
      canDraft
      title={`Delete ${nameOfGroup(group)}?`}
      action="Delete backend"
      act={() => remove(group)}
      onDone={async () => {
        onClose()
        onDeleted?.()
        await refresh('/backends')
      }}
      onClose={onClose}
    >
      <p>The backends in it stay. A backend that is still used cannot be deleted.</p>
    </Confirm>
  )
}
