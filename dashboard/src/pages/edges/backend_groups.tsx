import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { answerOf, api } from '../../api/client.ts'
import { useMayChange } from '../../api/may_change.ts'
import { queries, useRefresh } from '../../api/queries.ts'
import { Button } from '../../ui/button.tsx'
import { Confirm } from '../../ui/confirm.tsx'
import { type Group, kindLabels, nameOfGroup, nameOfStatic, useGroups } from './backend_options.ts'
import { FailoverForm, WeightedForm } from './group_forms.tsx'
import { ResponseForm } from './response_form.tsx'

type Open = { kind: Group['kind']; group?: Group }

/** Backends that are made of others, and responses that the edge sends itself. */
export function BackendGroups() {
  const groups = useGroups()
  const mayChange = useMayChange()
  const [open, setOpen] = useState<Open>()
  const [leaving, setLeaving] = useState<Group>()
  const close = () => setOpen(undefined)
  return (
    <section className="card" aria-labelledby="backend-groups">
      <header>
        <h2 id="backend-groups">Backend groups and responses</h2>
        {mayChange && (
          <span className="actions">
            <Button icon="plus" onPress={() => setOpen({ kind: 'weighted' })}>
              Create weighted backend
            </Button>
            <Button icon="plus" onPress={() => setOpen({ kind: 'failover' })}>
              Create failover backend
            </Button>
            <Button icon="plus" onPress={() => setOpen({ kind: 'http_response' })}>
              Create HTTP response
            </Button>
          </span>
        )}
      </header>
      {groups?.length === 0 && (
        <p className="empty">None yet. A group keeps serving when one of its backends is down.</p>
      )}
      {groups && groups.length > 0 && (
        <GroupTable
          groups={groups}
          onEdit={(group) => setOpen({ kind: group.kind, group })}
          onDelete={(group) => setLeaving(group)}
        />
      )}
      {open && <GroupForm {...open} onClose={close} />}
      {leaving && <DeleteGroup group={leaving} onClose={() => setLeaving(undefined)} />}
    </section>
  )
}

function GroupForm({ kind, group, onClose }: Open & { onClose: () => void }) {
  if (kind === 'weighted')
    return <WeightedForm backend={group?.kind === kind ? group.backend : undefined} onClose={onClose} />
  if (kind === 'failover')
    return <FailoverForm backend={group?.kind === kind ? group.backend : undefined} onClose={onClose} />
  return <ResponseForm backend={group?.kind === kind ? group.backend : undefined} onClose={onClose} />
}

type TableProps = { groups: readonly Group[]; onEdit: (group: Group) => void; onDelete: (group: Group) => void }

function GroupTable({ groups, onEdit, onDelete }: TableProps) {
  const mayChange = useMayChange()
  return (
    <table className="stack">
      <thead>
        <tr>
          <th scope="col">Name</th>
          <th scope="col">Kind</th>
          <th scope="col">Members</th>
          <th scope="col">
            <span className="for-readers">Actions</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {groups.map((group) => (
          <tr key={group.backend.id}>
            <th scope="row">{nameOfGroup(group)}</th>
            <td data-label="Kind">{kindLabels[group.kind]}</td>
            <td data-label="Members">
              <Members group={group} />
            </td>
            <td>
              {mayChange && (
                <div className="actions">
                  <Button aria-label={`Edit ${nameOfGroup(group)}`} onPress={() => onEdit(group)}>
                    Edit
                  </Button>
                  <Button aria-label={`Delete ${nameOfGroup(group)}`} onPress={() => onDelete(group)}>
                    Delete
                  </Button>
                </div>
              )}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}

function Members({ group }: { group: Group }) {
  const backends = useQuery(queries.backends()).data
  const responses = useQuery(queries.responseBackends()).data
  const nameOf = (id: string) => {
    const found = backends?.find((backend) => backend.id === id)
    if (found) return nameOfStatic(found)
    const response = responses?.find((backend) => backend.id === id)
    return response ? nameOfGroup({ kind: 'http_response', backend: response }) : id
  }
  if (group.kind === 'http_response') return <span>Status {group.backend.status_code}</span>
  if (group.kind === 'failover')
    return (
      <ol>
        {group.backend.backends.map((id) => (
          <li key={id}>{nameOf(id)}</li>
        ))}
      </ol>
    )
  return (
    <ul>
      {Object.entries(group.backend.backends).map(([id, weight]) => (
        <li key={id}>
          {nameOf(id)}: {weight === 0 ? 'drained' : `weight ${weight}`}
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

function DeleteGroup({ group, onClose }: { group: Group; onClose: () => void }) {
  const refresh = useRefresh()
  return (
    <Confirm
      title={`Delete ${nameOfGroup(group)}?`}
      action="Delete backend"
      act={() => remove(group)}
      onDone={async () => {
        onClose()
        await refresh('/backends')
      }}
      onClose={onClose}
    >
      <p>The backends in it stay. A backend that is still used cannot be deleted.</p>
    </Confirm>
  )
}
