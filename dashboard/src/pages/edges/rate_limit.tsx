import { useState } from 'react'
import { rateLimitDefaults, rateLimitMost } from '../../../../src/kernel/edge/rate_limit.ts'
import type { Shapes } from '../../api/client.ts'
import { Choice } from '../../ui/choice.tsx'
import { Field } from '../../ui/field.tsx'
import { Switch } from '../../ui/switch.tsx'
import { useDraft } from '../../ui/use_draft.ts'
import { ModuleDialog, type ModulePlace } from './module_dialog.tsx'
import { ModuleRow } from './module_row.tsx'

type RateLimit = Shapes['RateLimitModule']
type Props = { place: ModulePlace; module: RateLimit | null }

export const RateLimitRow = ({ place, module }: Props) => (
  <ModuleRow
    title="Rate limit"
    changes="the rate limit"
    place={place}
    module={module}
    without={<span className="soft">None</span>}
    edit={(onClose) => <EditRateLimit place={place} module={module} onClose={onClose} />}
  >
    {module && textOf(module)}
  </ModuleRow>
)

const secondsText = (seconds: number) => (seconds === 1 ? 'second' : `${seconds} seconds`)
const textOf = ({ requests, per_seconds, key, mode }: RateLimit): string =>
  `${requests.toLocaleString('en')} requests every ${secondsText(per_seconds)} ${key === 'source' ? 'from one address' : 'in all'}, on each node${mode === 'warn' ? ': warns only' : ''}`

const keys = [
  { value: 'source', label: 'Each client address' },
  { value: 'route', label: 'All clients together' },
]
const modes = [
  { value: 'enforce', label: 'Answer 429' },
  { value: 'warn', label: 'Let them pass, and record a warning' },
]

/** Undefined for anything but a whole number within its bounds. */
function wholeNumber(text: string, most: number): number | undefined {
  const number = /^\d{1,7}$/.test(text) ? Number(text) : 0
  return number >= 1 && number <= most ? number : undefined
}

function EditRateLimit({ place, module, onClose }: Props & { onClose: () => void }) {
  const [initial] = useState(() => ({
    requests: `${module?.requests ?? ''}`,
    seconds: `${module?.per_seconds ?? 60}`,
    key: module?.key ?? rateLimitDefaults.key,
    mode: module?.mode ?? rateLimitDefaults.mode,
    enabled: module?.enabled ?? true,
  }))
  const { values, set, isDirty } = useDraft<typeof initial>(initial)
  const requests = wholeNumber(values.requests, rateLimitMost.requests)
  const per_seconds = wholeNumber(values.seconds, rateLimitMost.per_seconds)
  const { key, mode, enabled } = values
  const body =
    requests && per_seconds ? { requests, per_seconds, key, mode, enabled, scope: 'node' as const } : undefined
  const faultOf = (text: string, number: number | undefined, most: number) =>
    text && !number ? `It must be a number from 1 to ${most.toLocaleString('en')}.` : undefined
  return (
    <ModuleDialog
      title={`Rate limit of ${place.name}`}
      place={place}
      module="rate_limit"
      isSet={module !== null}
      isDirty={isDirty}
      body={body}
      onClose={onClose}
    >
      <Field
        label="Requests"
        name="requests"
        value={values.requests}
        onChange={set('requests')}
        placeholder="100"
        error={faultOf(values.requests, requests, rateLimitMost.requests)}
      />
      <Field
        label="Every … seconds"
        name="per_seconds"
        value={values.seconds}
        onChange={set('seconds')}
        error={faultOf(values.seconds, per_seconds, rateLimitMost.per_seconds)}
      />
      <Choice
        label="Counted for"
        name="key"
        value={key}
        onChange={(chosen) => set('key')(chosen as RateLimit['key'])}
        options={keys}
      />
      <Choice
        label="Requests beyond it"
        name="mode"
        value={mode}
        onChange={(chosen) => set('mode')(chosen as RateLimit['mode'])}
        options={modes}
      />
      <Switch isSelected={enabled} onChange={set('enabled')}>
        Apply to traffic
      </Switch>
    </ModuleDialog>
  )
}
