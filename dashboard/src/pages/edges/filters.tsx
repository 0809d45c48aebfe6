import { useState } from 'react'
import { type Filter, filterDefaults, methodsFault, userAgentFault } from '../../../../src/kernel/edge/filters.ts'
import { Choice } from '../../ui/choice.tsx'
import { Field } from '../../ui/field.tsx'
import { Switch } from '../../ui/switch.tsx'
import { useDraft } from '../../ui/use_draft.ts'
import { ModuleDialog, type ModulePlace } from './module_dialog.tsx'
import { ModuleRow } from './module_row.tsx'

const kinds = {
  user_agent_filter: {
    title: 'User agents',
    noun: 'user agent filter',
    only: 'Only if it contains',
    not: 'Not if it contains',
    placeholder: 'curl/',
    refusal: 'Answer 403',
    fault: userAgentFault,
    read: (line: string) => line,
  },
  methods: {
    title: 'Methods',
    noun: 'methods',
    only: 'Only these',
    not: 'Not these',
    placeholder: 'GET',
    refusal: 'Answer 405',
    fault: methodsFault,
    read: (line: string) => line.trim().toUpperCase(),
  },
}
type Kind = keyof typeof kinds
type Props = { kind: Kind; place: ModulePlace; module: (Filter & { enabled: boolean }) | null }

export const FilterRow = ({ kind, place, module }: Props) => (
  <ModuleRow
    title={kinds[kind].title}
    changes={`the ${kinds[kind].noun}`}
    place={place}
    module={module}
    without={<span className="soft">All</span>}
    edit={(onClose) => <EditFilter kind={kind} place={place} module={module} onClose={onClose} />}
  >
    {module && textOf(module)}
  </ModuleRow>
)

const textOf = ({ allow, deny, mode }: Filter): string =>
  [
    ...(allow.length ? [`Only ${allow.join(', ')}`] : []),
    ...(deny.length ? [`${allow.length ? 'not' : 'Not'} ${deny.join(', ')}`] : []),
  ].join(', ') + (mode === 'warn' ? ': warns only' : '')

function EditFilter({ kind, place, module, onClose }: Props & { onClose: () => void }) {
  const { title, only, not, placeholder, refusal, fault, read } = kinds[kind]
  const [initial] = useState(() => ({
    allow: (module?.allow ?? []).join('\n'),
    deny: (module?.deny ?? []).join('\n'),
    mode: module?.mode ?? filterDefaults.mode,
    enabled: module?.enabled ?? true,
  }))
  const { values, set, isDirty } = useDraft<typeof initial>(initial)
  const linesOf = (text: string) =>
    text
      .split('\n')
      .filter((line) => line.trim() !== '')
      .map(read)
  const body = { ...values, allow: linesOf(values.allow), deny: linesOf(values.deny) }
  const found = fault(body)
  const errorOf = (list: 'allow' | 'deny') =>
    body[list].length && found?.place.startsWith(list) ? `An entry ${found.fault}.` : undefined
  return (
    <ModuleDialog
      title={`${title} of ${place.name}`}
      place={place}
      module={kind}
      isSet={module !== null}
      isDirty={isDirty}
      body={found ? undefined : body}
      onClose={onClose}
    >
      {(
        [
          ['allow', only],
          ['deny', not],
        ] as const
      ).map(([list, label]) => (
        <Field
          key={list}
          label={label}
          name={list}
          mono
          rows={3}
          hint="One on each line."
          value={values[list]}
          onChange={set(list)}
          placeholder={placeholder}
          error={errorOf(list)}
        />
      ))}
      <Choice
        label="Other requests"
        name="mode"
        value={values.mode}
        onChange={(chosen) => set('mode')(chosen as Filter['mode'])}
        options={[
          { value: 'enforce', label: refusal },
          { value: 'warn', label: 'Let them pass, and record a warning' },
        ]}
      />
      <Switch isSelected={values.enabled} onChange={set('enabled')}>
        Apply to traffic
      </Switch>
    </ModuleDialog>
  )
}
