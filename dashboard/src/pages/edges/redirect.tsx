import { useState } from 'react'
import {
  type Redirect,
  redirectDefaults,
  redirectFault,
  redirectStatuses,
} from '../../../../src/kernel/edge/redirect.ts'
import type { Shapes } from '../../api/client.ts'
import { useMayChange } from '../../api/may_change.ts'
import { Button } from '../../ui/button.tsx'
import { Choice } from '../../ui/choice.tsx'
import { Field } from '../../ui/field.tsx'
import { Switch } from '../../ui/switch.tsx'
import { useDraft } from '../../ui/use_draft.ts'
import { ModuleDialog, type ModulePlace } from './module_dialog.tsx'
import { Enabled } from './modules.tsx'

type Props = { place: ModulePlace; module: Shapes['RedirectModule'] | null }

export function RedirectRow({ place, module }: Props) {
  const [isOpen, setOpen] = useState(false)
  const mayChange = useMayChange()
  return (
    <div className="module">
      <h4>Redirect</h4>
      <div>
        {module ? (
          <>
            <span className="mono">{`${module.status_code} ${module.to}${module.keep_path ? '/…' : ''}`}</span>
            <Enabled module={module} />
          </>
        ) : (
          <span className="soft">None</span>
        )}
      </div>
      {mayChange && (
        <Button kind="quiet" isSmall aria-label={`Change the redirect of ${place.name}`} onPress={() => setOpen(true)}>
          Change
        </Button>
      )}
      {isOpen && <EditRedirect place={place} module={module} onClose={() => setOpen(false)} />}
    </div>
  )
}

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
