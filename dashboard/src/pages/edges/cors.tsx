import { useState } from 'react'
import { type Cors, corsDefaults, corsFault } from '../../../../src/kernel/edge/cors.ts'
import type { Shapes } from '../../api/client.ts'
import { Field } from '../../ui/field.tsx'
import { Switch } from '../../ui/switch.tsx'
import { useDraft } from '../../ui/use_draft.ts'
import { ModuleDialog, type ModulePlace } from './module_dialog.tsx'
import { ModuleRow } from './module_row.tsx'

type Props = { place: ModulePlace; module: Shapes['CorsModule'] | null }

export const CorsRow = ({ place, module }: Props) => (
  <ModuleRow
    title="Other origins (CORS)"
    changes="the CORS settings"
    place={place}
    module={module}
    without={<span className="soft">As the upstream says</span>}
    edit={(onClose) => <EditCors place={place} module={module} onClose={onClose} />}
  >
    {module && (
      <span className="mono">{`${module.allowed_origins.join(', ')}${module.allow_credentials ? ', with cookies' : ''}`}</span>
    )}
  </ModuleRow>
)

const lists = [
  { name: 'allowed_origins', label: 'Origins', placeholder: 'https://app.example.com' },
  { name: 'allowed_methods', label: 'Methods', placeholder: 'PUT' },
  { name: 'allowed_headers', label: 'Request headers', placeholder: 'Authorization' },
  { name: 'exposed_headers', label: 'Response headers that pages may read', placeholder: 'X-Total' },
] as const
type ListName = (typeof lists)[number]['name']

function EditCors({ place, module, onClose }: Props & { onClose: () => void }) {
  const [initial] = useState(() => {
    const now: Cors = { allowed_origins: [], ...corsDefaults, ...module }
    return {
      ...(Object.fromEntries(lists.map(({ name }) => [name, now[name].join('\n')])) as Record<ListName, string>),
      max_age_seconds: `${now.max_age_seconds}`,
      allow_credentials: now.allow_credentials,
      enabled: module?.enabled ?? true,
    }
  })
  const { values, set, isDirty } = useDraft<typeof initial>(initial)
  const body = {
    ...values,
    ...(Object.fromEntries(lists.map(({ name }) => [name, values[name].split(/\s+/).filter(Boolean)])) as Record<
      ListName,
      string[]
    >),
    max_age_seconds: Number(values.max_age_seconds),
  }
  const found = corsFault(body)
  const isAge = /^\d{1,5}$/.test(values.max_age_seconds) && body.max_age_seconds <= 86_400
  const errorOf = (name: string) =>
    values.allowed_origins && found?.place.startsWith(name) ? `It ${found.fault}.` : undefined
  return (
    <ModuleDialog
      title={`Other origins of ${place.name}`}
      place={place}
      module="cors"
      isSet={module !== null}
      isDirty={isDirty}
      body={found || !isAge ? undefined : body}
      onClose={onClose}
    >
      {lists.map(({ name, label, placeholder }) => (
        <Field
          key={name}
          label={label}
          name={name}
          mono
          rows={2}
          hint="One on each line. * stands for all."
          value={values[name]}
          onChange={set(name)}
          placeholder={placeholder}
          error={errorOf(name)}
        />
      ))}
      <Field
        label="Seconds that browsers may remember the answer"
        name="max_age_seconds"
        value={values.max_age_seconds}
        onChange={set('max_age_seconds')}
        error={isAge ? undefined : 'It must be a number from 0 to 86400.'}
      />
      <Switch isSelected={values.allow_credentials} onChange={set('allow_credentials')}>
        Let pages send cookies
      </Switch>
      {errorOf('allow_credentials') && <p className="field-error">{errorOf('allow_credentials')}</p>}
      <Switch isSelected={values.enabled} onChange={set('enabled')}>
        Apply to traffic
      </Switch>
    </ModuleDialog>
  )
}
