import type { Shapes } from '../../api/client.ts'
import { Field } from '../../ui/field.tsx'

type Timeouts = NonNullable<Shapes['HttpsEdgeRoute']['timeouts']>
type Name = keyof Timeouts
/** As typed. Empty means the default. */
export type TimeoutTexts = Record<Name, string>

export const noTimeouts: TimeoutTexts = { connect_seconds: '', response_seconds: '', idle_seconds: '' }

const labels: { name: Name; label: string; hint: string }[] = [
  { name: 'connect_seconds', label: 'Connect timeout in seconds', hint: 'Default: 5.' },
  { name: 'response_seconds', label: 'Response timeout in seconds', hint: 'Default: 60.' },
  {
    name: 'idle_seconds',
    label: 'Idle timeout in seconds',
    hint: 'Silence within a response. Default: 60, and 3600 for WebSockets.',
  },
]

export function timeoutsOf(texts: TimeoutTexts): Timeouts | null {
  const seconds = (text: string) => (text.trim() === '' ? null : Number(text))
  const timeouts = {
    connect_seconds: seconds(texts.connect_seconds),
    response_seconds: seconds(texts.response_seconds),
    idle_seconds: seconds(texts.idle_seconds),
  }
  return Object.values(timeouts).every((value) => value === null) ? null : timeouts
}

export function TimeoutFields({ value, onChange }: { value: TimeoutTexts; onChange: (texts: TimeoutTexts) => void }) {
  return labels.map(({ name, label, hint }) => (
    <Field
      key={name}
      label={label}
      name={`timeouts.${name}`}
      type="number"
      hint={hint}
      value={value[name]}
      onChange={(text) => onChange({ ...value, [name]: text })}
    />
  ))
}

export const timeoutsText = ({ connect_seconds, response_seconds, idle_seconds }: Timeouts): string =>
  Object.entries({ connect: connect_seconds, response: response_seconds, idle: idle_seconds })
    .filter(([, value]) => value !== null)
    .map(([name, value]) => `${name} ${value} s`)
    .join(', ')
