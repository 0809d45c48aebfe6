import type { ReactNode } from 'react'
import { useFormField } from './form_fields.tsx'

type Props<Value extends string, Option extends { value: Value }> = {
  label: string
  /** What the API calls it, for its errors to appear here. */
  name: string
  value: Value
  onChange: (value: Value) => void
  options: readonly Option[]
  labelHidden?: boolean
  /** What stands beside the button of an option. */
  shown: (option: Option) => ReactNode
  /** The frame around all of them. */
  frame: (options: ReactNode) => ReactNode
}

/** One of a few, as radio buttons in a form; Segments and CardChoice say how they look. */
export function RadioChoice<Value extends string, Option extends { value: Value }>(props: Props<Value, Option>) {
  const { label, name, value, onChange, options, labelHidden, shown, frame } = props
  const { error, clearError } = useFormField(name, label)
  return (
    <fieldset className="field">
      <legend className={labelHidden ? 'for-readers' : 'label'}>{label}</legend>
      {frame(
        options.map((option) => (
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
            {shown(option)}
          </label>
        )),
      )}
      {error && <p className="field-error">{error}</p>}
    </fieldset>
  )
}
