import { useId, useState } from 'react'
import { headerNameFault, headersFault, headerValueFault, type Message } from '../../../../src/kernel/edge/headers.ts'
import type { Shapes } from '../../api/client.ts'
import { Badge } from '../../ui/badge.tsx'
import { Button } from '../../ui/button.tsx'
import { Field } from '../../ui/field.tsx'
import { Switch } from '../../ui/switch.tsx'
import { useDraft } from '../../ui/use_draft.ts'
import { ModuleDialog, type ModulePlace } from './module_dialog.tsx'
import { ModuleRow } from './module_row.tsx'
import { Sample } from './sample.tsx'

type Headers = Shapes['RequestHeadersModule'] | Shapes['ResponseHeadersModule'] | null
type Props = { message: Message; place: ModulePlace; module: Headers; host: string | undefined; path: string }

/** Differences between request and response headers. */
const wording = {
  request: {
    title: 'Request headers',
    module: 'request_headers',
    hint: 'Replaces any header of the same name that the client sent.',
    names: { set: 'X-Team', removed: 'Cookie\nX-Debug' },
  },
  response: {
    title: 'Response headers',
    module: 'response_headers',
    hint: "Replaces the upstream's header of the same name. Set-Cookie is added to the upstream's.",
    names: { set: 'Strict-Transport-Security', removed: 'X-Powered-By\nServer' },
  },
} as const

export function HeadersRow(props: Props) {
  const { message, place, module } = props
  return (
    <ModuleRow
      title={wording[message].title}
      changes={`the ${message} headers`}
      place={place}
      module={module}
      without={<span className="soft">Unchanged</span>}
      edit={(onClose) => <EditHeaders {...props} onClose={onClose} />}
    >
      <ul className="header-list mono">
        {Object.entries(module?.add ?? {}).map(([name, value]) => (
          <li key={`+${name}`}>
            <Badge tone="allowed">set</Badge> {name}: {value}
          </li>
        ))}
        {module?.remove.map((name) => (
          <li key={`-${name}`}>
            <Badge tone="refused">removed</Badge> {name}
          </li>
        ))}
      </ul>
    </ModuleRow>
  )
}

type Row = { id: number; name: string; value: string }
let lastRow = 0
const row = (name = '', value = ''): Row => ({ id: ++lastRow, name, value })

function EditHeaders({ message, place, module, host, path, onClose }: Props & { onClose: () => void }) {
  const { title, module: name, hint, names } = wording[message]
  const [initial] = useState(() => ({
    added: Object.entries(module?.add ?? {}).map(([name, value]) => row(name, value)),
    removed: (module?.remove ?? []).join('\n'),
    enabled: module?.enabled ?? true,
  }))
  const { values, set, isDirty } = useDraft(initial)
  const { added, removed, enabled } = values
  const setAdded = set('added')
  const id = useId()
  const filled = added.filter(({ name, value }) => name || value)
  // From entries, not by assignment: a header may be named __proto__.
  const add: Record<string, string> = Object.fromEntries(filled.map(({ name, value }) => [name, value]))
  const remove = removed.split(/[\s,]+/).filter(Boolean)
  const twice = filled.length !== Object.keys(add).length ? 'A header is set twice.' : undefined
  const fault = headersFault({ add, remove }, message)
  const change = (changed: Row) => setAdded(added.map((other) => (other.id === changed.id ? changed : other)))
  return (
    <ModuleDialog
      title={`${title} of ${place.name}`}
      wide
      place={place}
      module={name}
      isSet={module !== null}
      isDirty={isDirty}
      body={twice || fault ? undefined : { add, remove, enabled }}
      onClose={onClose}
    >
      <fieldset aria-describedby={`${id}-hint`} className="stack-gap">
        <legend className="label">Headers to set</legend>
        <p id={`${id}-hint`} className="hint">
          {hint}
        </p>
        {added.map((entry, index) => (
          <div className="header-row" key={entry.id}>
            <Field
              label={`Name ${index + 1}`}
              mono
              value={entry.name}
              onChange={(name) => change({ ...entry, name: name.trim() })}
              placeholder={names.set}
              error={entry.name ? sentence(headerNameFault(entry.name, 'add', message)) : undefined}
            />
            <Field
              label={`Value ${index + 1}`}
              mono
              value={entry.value}
              onChange={(value) => change({ ...entry, value })}
              error={sentence(headerValueFault(entry.value))}
            />
            <Button
              kind="quiet"
              icon="close"
              iconOnly
              onPress={() => setAdded(added.filter((other) => other.id !== entry.id))}
            >
              {`Remove ${entry.name || 'this header'}`}
            </Button>
          </div>
        ))}
        <div>
          <Button icon="plus" onPress={() => setAdded([...added, row()])}>
            Add header
          </Button>
        </div>
      </fieldset>
      <Field
        label="Headers to remove"
        name="remove"
        mono
        rows={2}
        value={removed}
        onChange={set('removed')}
        placeholder={names.removed}
        error={twice ?? (fault ? `${fault.place} ${fault.fault}.` : undefined)}
      />
      <Switch isSelected={enabled} onChange={set('enabled')}>
        Apply to traffic
      </Switch>
      {message === 'request' && <Sample add={add} remove={remove} enabled={enabled} host={host} path={path} />}
    </ModuleDialog>
  )
}

const sentence = (fault: string | undefined): string | undefined => (fault ? `It ${fault}.` : undefined)
