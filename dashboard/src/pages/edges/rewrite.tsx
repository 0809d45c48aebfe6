import { useState } from 'react'
import { rewriteFault } from '../../../../src/kernel/edge/rewrite.ts'
import type { Shapes } from '../../api/client.ts'
import { Field } from '../../ui/field.tsx'
import { Switch } from '../../ui/switch.tsx'
import { useDraft } from '../../ui/use_draft.ts'
import { ModuleDialog, type ModulePlace } from './module_dialog.tsx'
import { ModuleRow } from './module_row.tsx'

type Module = Shapes['RewriteModule']
type Props = { place: ModulePlace; module: Module | null }

export const RewriteRow = ({ place, module }: Props) => (
  <ModuleRow
    title="Rewrite"
    changes="the rewrite"
    place={place}
    module={module}
    without={<span className="soft">None</span>}
    edit={(onClose) => <EditRewrite place={place} module={module} onClose={onClose} />}
  >
    <span className="mono">{module && textOf(module)}</span>
  </ModuleRow>
)

const textOf = ({ strip_prefix, add_prefix, host }: Module): string =>
  `${strip_prefix ?? ''}/… → ${host ?? ''}${add_prefix ?? ''}/…`

const fields = {
  strip_prefix: { label: 'Strip prefix', placeholder: '/api', hint: 'Removed from the path if it begins with it.' },
  add_prefix: { label: 'Add prefix', placeholder: '/v1', hint: 'Put in front of the path after that.' },
  host: { label: 'Host', placeholder: 'app.internal.example', hint: 'Instead of the host that the client named.' },
}

function EditRewrite({ place, module, onClose }: Props & { onClose: () => void }) {
  const [initial] = useState(() => ({
    strip_prefix: module?.strip_prefix ?? '',
    add_prefix: module?.add_prefix ?? '',
    host: module?.host ?? '',
    enabled: module?.enabled ?? true,
  }))
  const { values, set, isDirty } = useDraft<typeof initial>(initial)
  const body = {
    strip_prefix: values.strip_prefix || null,
    add_prefix: values.add_prefix || null,
    host: values.host || null,
    enabled: values.enabled,
  }
  const fault = rewriteFault(body)
  return (
    <ModuleDialog
      title={`Rewrite of ${place.name}`}
      place={place}
      module="rewrite"
      isSet={module !== null}
      isDirty={isDirty}
      body={fault ? undefined : body}
      onClose={onClose}
    >
      {(['strip_prefix', 'add_prefix', 'host'] as const).map((name) => (
        <Field
          key={name}
          {...fields[name]}
          name={name}
          mono
          value={values[name]}
          onChange={(text) => set(name)(text.trim())}
          error={values[name] && fault?.place === name ? `It ${fault.fault}.` : undefined}
        />
      ))}
      <Switch isSelected={values.enabled} onChange={set('enabled')}>
        Apply to traffic
      </Switch>
    </ModuleDialog>
  )
}
