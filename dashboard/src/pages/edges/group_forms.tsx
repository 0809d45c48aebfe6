import { useQuery } from '@tanstack/react-query'
import { type ReactNode, useState } from 'react'
import { answerOf, api, type Shapes } from '../../api/client.ts'
import { queries } from '../../api/queries.ts'
import { Button } from '../../ui/button.tsx'
import { Choice } from '../../ui/choice.tsx'
import { Field } from '../../ui/field.tsx'
import { useDraft } from '../../ui/use_draft.ts'
import { BackendDialog } from './backend_dialog.tsx'
import { nameOfGroup, nameOfStatic } from './backend_options.ts'

type Row = { key: number; id: string; weight: string }
let lastKey = 0
const row = (id = '', weight = '1'): Row => ({ key: ++lastKey, id, weight })

type Option = { value: string; label: string }
function useMemberOptions(withResponses: boolean): Option[] {
  const backends = useQuery(queries.backends()).data ?? []
  const responses = useQuery(queries.responseBackends()).data ?? []
  return [
    ...backends.map((backend) => ({ value: backend.id, label: nameOfStatic(backend) })),
    ...(withResponses
      ? responses.map((backend) => ({
          value: backend.id,
          label: `HTTP response: ${nameOfGroup({ kind: 'http_response', backend })}`,
        }))
      : []),
  ]
}

type MembersProps = {
  rows: readonly Row[]
  onChange: (rows: Row[]) => void
  options: Option[]
  hint: string
  nameOf: (row: Row, index: number) => string
  /** What each member has besides itself. */
  children?: (row: Row, index: number, change: (row: Row) => void) => ReactNode
}

function MemberFields({ rows, onChange, options, hint, nameOf, children }: MembersProps) {
  const change = (changed: Row) => onChange(rows.map((other) => (other.key === changed.key ? changed : other)))
  const moveUp = (index: number) => onChange(rows.toSpliced(index, 1).toSpliced(index - 1, 0, rows[index] as Row))
  return (
    <fieldset className="stack-gap">
      <legend className="label">Backends</legend>
      <p className="hint">{hint}</p>
      {rows.map((entry, index) => (
        <div className="header-row" key={entry.key}>
          <Choice
            label={`Backend ${index + 1}`}
            name={nameOf(entry, index)}
            value={entry.id}
            onChange={(id) => change({ ...entry, id })}
            options={[{ value: '', label: 'Choose…' }, ...options]}
          />
          {children?.(entry, index, change) ?? (
            <Button isDisabled={index === 0} onPress={() => moveUp(index)} aria-label={`Move backend ${index + 1} up`}>
              Move up
            </Button>
          )}
          <Button
            kind="quiet"
            icon="close"
            iconOnly
            onPress={() => onChange(rows.filter((other) => other.key !== entry.key))}
          >
            {`Remove backend ${index + 1}`}
          </Button>
        </div>
      ))}
      <div>
        <Button icon="plus" onPress={() => onChange([...rows, row()])}>
          Add backend
        </Button>
      </div>
    </fieldset>
  )
}

type WeightedProps = { backend: Shapes['WeightedBackend'] | undefined; onClose: () => void }

export function WeightedForm({ backend, onClose }: WeightedProps) {
  const [initial] = useState(() => ({
    description: backend?.description ?? '',
    rows: Object.entries(backend?.backends ?? {}).map(([id, weight]) => row(id, String(weight))),
  }))
  const { values, set, isDirty } = useDraft(initial)
  const chosen = values.rows.filter(({ id }) => id)
  const save = () => {
    const weights = chosen.map(({ id, weight }): [string, number] => [id, Number(weight)])
    const body = { description: values.description, backends: Object.fromEntries(weights) }
    return backend
      ? answerOf(api.PATCH('/backends/weighted/{id}', { params: { path: { id: backend.id } }, body }))
      : answerOf(api.POST('/backends/weighted', { body }))
  }
  return (
    <BackendDialog
      wide
      title={backend ? 'Edit weighted backend' : 'Create weighted backend'}
      isDirty={isDirty}
      isReady={chosen.length > 0}
      save={save}
      onClose={onClose}
    >
      <Field label="Description" name="description" value={values.description} onChange={set('description')} />
      <MemberFields
        rows={values.rows}
        onChange={set('rows')}
        options={useMemberOptions(false)}
        hint="Traffic is shared by weight. Weight 0 drains: open requests finish, new ones go elsewhere."
        nameOf={({ id }) => `backends.${id}`}
      >
        {(entry, index, change) => (
          <Field
            label={`Weight ${index + 1}`}
            type="number"
            value={entry.weight}
            onChange={(weight) => change({ ...entry, weight })}
          />
        )}
      </MemberFields>
    </BackendDialog>
  )
}

type FailoverProps = { backend: Shapes['FailoverBackend'] | undefined; onClose: () => void }

export function FailoverForm({ backend, onClose }: FailoverProps) {
  const [initial] = useState(() => ({
    description: backend?.description ?? '',
    rows: (backend?.backends ?? []).map((id) => row(id)),
  }))
  const { values, set, isDirty } = useDraft(initial)
  const chosen = values.rows.map(({ id }) => id).filter(Boolean)
  const save = () => {
    const body = { description: values.description, backends: chosen }
    return backend
      ? answerOf(api.PATCH('/backends/failover/{id}', { params: { path: { id: backend.id } }, body }))
      : answerOf(api.POST('/backends/failover', { body }))
  }
  return (
    <BackendDialog
      wide
      title={backend ? 'Edit failover backend' : 'Create failover backend'}
      isDirty={isDirty}
      isReady={chosen.length > 0}
      save={save}
      onClose={onClose}
    >
      <Field label="Description" name="description" value={values.description} onChange={set('description')} />
      <MemberFields
        rows={values.rows}
        onChange={set('rows')}
        options={useMemberOptions(true)}
        hint="The first backend that is up gets all traffic. The last can be an HTTP response."
        nameOf={(_, index) => `backends[${index}]`}
      />
    </BackendDialog>
  )
}
