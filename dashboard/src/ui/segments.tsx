import type { ReactNode } from 'react'
import { useFormField } from './form_fields.tsx'

type Props<Value extends string> = {
  label: string
  /** What the API calls it, for its errors to appear here. */
  name: string
  value: Value
  onChange: (value: Value) => void
  options: readonly { value: Value; label: string }[]
  labelHidden?: boolean
  /** Beside them: what the choice comes to. */
  children?: ReactNode
}

/** One of a few short words in a row. */
export function Segments<Value extends string>(props: Props<Value>) {
  const { label, name, value, onChange, options, labelHidden, children } = props
  const { error, clearError } = useFormField(name, label)
  return (
    <fieldset className="field">
      <legend className={labelHidden ? 'for-readers' : 'label'}>{label}</legend>
      <div className="segments-row">
        <div className="segments">
          {options.map((option) => (
            <label key={option.value}>
              <input
                type="radio"
                name={name}
                checked={value === option.value}
                aria-invalid={error ? true : undefined}
                onChange={() => {
                  clearError()
                  onChange(option.value)
                }}
              />
              {option.label}
            </label>
          ))}
        </div>
        {children}
      </div>
      {error && <p className="field-error">{error}</p>}
    </fieldset>
  )
}
