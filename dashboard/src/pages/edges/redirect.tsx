import { useState } from 'react'
import {
  type Redirect,
  redirectDefaults,
  redirectFault,
  redirectStatuses,
} from '../../../../src/kernel/edge/redirect.ts'
import type { Shapes } from '../../api/client.ts'
import { Choice } from '../../ui/choice.tsx'
import { Field } from '../../ui/field.tsx'
import { Switch } from '../../ui/switch.tsx'
import { useDraft } from '../../ui/use_draft.ts'
import { ModuleDialog, type ModulePlace } from './module_dialog.tsx'
import { ModuleRow } from './module_row.tsx'

type Props = { place: ModulePlace; module: Shapes['RedirectModule'] | null }

export const RedirectRow = ({ place, module }: Props) => (
  <ModuleRow
    title="Redirect"
    changes="the redirect"
    place={place}
    module={module}
    without={<span className="soft">None</span>}
    edit={(onClose) => <EditRedirect place={place} module={module} onClose={onClose} />}
  >
    <span className="mono">{`${module?.status_code} ${module?.to}${module?.keep_path ? '/…' : ''}`}</span>
  </ModuleRow>
)

const statusNotes: Record<Redirect['status_code'], string> = {
  301: 'moved permanently',
  302: 'found',
  303: 'see other, with GET',
  307: 'temporary, same method',
  308: 'permanent, same method',
}
const statuses = redirectStatuses.map((status) => ({ value: `${status}`, label: `${status} ${statusNotes[status]}` }))

function EditRedirect({ place, module, onClose }: Props & { onClose: () => void }) {
  const [initial] = useState(() => ({ to: '', enabled: true, ...redirectDefaults, ...module }))
  const { values, set, isDirty } = useDraft<Shapes['RedirectModule']>(initial)
  const fault = values.to ? redirectFault(values) : undefined
  return (
    <ModuleDialog
      title={`Redirect of ${place.name}`}
      place={place}
      module="redirect"
      isSet={module !== null}
      isDirty={isDirty}
      body={values.to && !fault ? values : undefined}
      onClose={onClose}
    >
      <Field
        label="To"
        name="to"
        mono
        value={values.to}
        onChange={(to) => set('to')(to.trim())}
        placeholder="https://new.example.com"
        error={fault ? `It ${fault.fault}.` : undefined}
      />
      <Choice
        label="Status"
        name="status_code"
        value={`${values.status_code}`}
        onChange={(chosen) => set('status_code')(Number(chosen) as Redirect['status_code'])}
        options={statuses}
      />
      <Switch isSelected={values.keep_path} onChange={set('keep_path')}>
        Append the path of the request
      </Switch>
      <Switch isSelected={values.keep_query} onChange={set('keep_query')}>
        Append the query of the request
      </Switch>
      <Switch isSelected={values.enabled} onChange={set('enabled')}>
        Apply to traffic
      </Switch>
    </ModuleDialog>
  )
}
