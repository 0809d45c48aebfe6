import { defaultCheckPath, healthCheckLimits } from '../../../../src/kernel/edge/health_check.ts'
import type { Shapes } from '../../api/client.ts'
import { Choice } from '../../ui/choice.tsx'
import { Field } from '../../ui/field.tsx'

type HealthCheck = NonNullable<Shapes['StaticBackend']['health_check']>
type NumberName = keyof typeof healthCheckLimits
/** As typed. */
export type HealthCheckTexts = Record<NumberName | 'path', string> & { type: 'none' | HealthCheck['type'] }

const numbers: { name: NumberName; label: string }[] = [
  { name: 'interval_seconds', label: 'Seconds between checks' },
  { name: 'healthy_after', label: 'Successful checks until it is used again' },
  { name: 'unhealthy_after', label: 'Failed checks until it is no longer used' },
]

export const textsOfCheck = (check: HealthCheck | null | undefined): HealthCheckTexts => ({
  type: check?.type ?? 'none',
  path: check?.path ?? '',
  interval_seconds: String(check?.interval_seconds ?? ''),
  healthy_after: String(check?.healthy_after ?? ''),
  unhealthy_after: String(check?.unhealthy_after ?? ''),
})

export function checkOf({ type, path, ...texts }: HealthCheckTexts): HealthCheck | null {
  if (type === 'none') return null
  const numberOf = (name: NumberName) =>
    texts[name].trim() === '' ? healthCheckLimits[name].default : Number(texts[name])
  return {
    type,
    path: type === 'http' ? path || defaultCheckPath : null,
    interval_seconds: numberOf('interval_seconds'),
    healthy_after: numberOf('healthy_after'),
    unhealthy_after: numberOf('unhealthy_after'),
  }
}

type Props = { value: HealthCheckTexts; onChange: (texts: HealthCheckTexts) => void }

export function HealthCheckFields({ value, onChange }: Props) {
  return (
    <>
      <Choice
        label="Health check"
        name="health_check.type"
        value={value.type}
        onChange={(type) => onChange({ ...value, type })}
        options={[
          { value: 'none', label: 'None' },
          { value: 'tcp', label: 'TCP: a connection can be opened' },
          { value: 'http', label: 'HTTP: a GET is answered with 2xx or 3xx' },
        ]}
      />
      {value.type === 'http' && (
        <Field
          label="Path to check"
          name="health_check.path"
          mono
          value={value.path}
          onChange={(path) => onChange({ ...value, path: path.trim() })}
          placeholder="/"
        />
      )}
      {value.type !== 'none' &&
        numbers.map(({ name, label }) => (
          <Field
            key={name}
            label={label}
            name={`health_check.${name}`}
            type="number"
            hint={`Default: ${healthCheckLimits[name].default}.`}
            value={value[name]}
            onChange={(text) => onChange({ ...value, [name]: text })}
          />
        ))}
    </>
  )
}

export const checkText = ({ type, path, interval_seconds }: HealthCheck): string =>
  `${type === 'http' ? `HTTP check of ${path}` : 'TCP check'}, every ${interval_seconds} s`
