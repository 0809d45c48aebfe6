import { useFormField } from './form_fields.tsx'

type Props<Value extends string> = {
  label: string
  /** What the API calls it, for its errors to appear here. */
  name: string
  value: Value
  onChange: (value: Value) => void
  options: readonly { value: Value; title: string; detail: string }[]
}

/** One of a few, each with a sentence about it. */
export function CardChoice<Value extends string>({ label, name, value, onChange, options }: Props<Value>) {
  const { error, clearError } = useFormField(name, label)
  return (
    <fieldset className="field">
      <legend className="label">{label}</legend>
      <div className="card-choice">
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
            <b>{option.title}</b>
            <small>{option.detail}</small>
          </label>
        ))}
      </div>
      {error && <p className="field-error">{error}</p>}
    </fieldset>
  )
}
