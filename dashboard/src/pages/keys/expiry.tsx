import { Field } from '../../ui/field.tsx'
import { Segments } from '../../ui/segments.tsx'

/** Days from now, never, or a typed date. */
export type Lifetime = 'keep' | '30' | '90' | '365' | 'never' | 'date'
export type ExpiryValues = { lifetime: Lifetime; date: string }

const day = 86_400_000
const written = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'long', year: 'numeric' })

const lifetimes: readonly { value: Lifetime; label: string }[] = [
  { value: '30', label: '30 days' },
  { value: '90', label: '90 days' },
  { value: '365', label: '1 year' },
  { value: 'never', label: 'Never' },
  { value: 'date', label: 'Date…' },
]

/** Undefined: keep the current expiry. A typed day ends with its last second in local time. */
export function expiresAt({ lifetime, date }: ExpiryValues): string | null | undefined {
  if (lifetime === 'keep') return undefined
  if (lifetime === 'never') return null
  if (lifetime !== 'date') return new Date(Date.now() + Number(lifetime) * day).toISOString()
  const end = new Date(`${date}T23:59:59`)
  return Number.isNaN(end.getTime()) ? undefined : end.toISOString()
}

type Props = {
  values: ExpiryValues
  onLifetime: (lifetime: Lifetime) => void
  onDate: (date: string) => void
  /** Expiry of the existing key. */
  current?: string | null | undefined
}

export function ExpiryFields({ values, onLifetime, onDate, current }: Props) {
  const isEditing = current !== undefined
  const end = values.lifetime === 'keep' ? current : expiresAt(values)
  return (
    <>
      <Segments
        label="Expires"
        name="expires_at"
        value={values.lifetime}
        onChange={onLifetime}
        options={isEditing ? [{ value: 'keep' as const, label: 'Unchanged' }, ...lifetimes] : lifetimes}
      >
        <span className="soft">{end ? written.format(new Date(end)) : end === null && isEditing && 'Never'}</span>
      </Segments>
      {values.lifetime === 'date' && <Field label="Last day" type="date" value={values.date} onChange={onDate} />}
    </>
  )
}
