import { useId } from 'react'
import { useFormField } from './form_fields.tsx'
import { Icon } from './icons.tsx'

type Props<Value extends string> = {
  label: string
  /** Name of the field in the API, to show its errors here. */
  name?: string
  value: Value
  onChange: (value: Value) => void
  options: readonly { value: Value; label: string }[]
  hint?: string
  labelHidden?: boolean
}

/** The native select: works with every keyboard, screen reader and phone, and adds no code. */
export function Choice<Value extends string>(props: Props<Value>) {
  const { label, name, value, onChange, options, hint, labelHidden } = props
  const id = useId()
  const { error, clearError } = useFormField(name, label)
  const described = [hint && `${id}-hint`, error && `${id}-error`].filter(Boolean).join(' ')
  return (
    <div className="field">
      <label htmlFor={id} className={labelHidden ? 'for-readers' : undefined}>
        {label}
      </label>
      <span className="select">
        <select
          id={id}
          className="input"
          value={value}
          aria-invalid={error ? true : undefined}
          aria-describedby={described || undefined}
          onChange={(event) => {
            const chosen = options.find((option) => option.value === event.target.value)
            clearError()
            if (chosen) onChange(chosen.value)
          }}
        >
          {options.map((option) => (
            <option key={option.value} value={option.value}>
              {option.label}
            </option>
          ))}
        </select>
        <Icon name="down" />
      </span>
      {hint && (
        <span id={`${id}-hint`} className="hint">
          {hint}
        </span>
      )}
      {error && (
        <span id={`${id}-error`} className="field-error">
          {error}
        </span>
      )}
    </div>
  )
}
