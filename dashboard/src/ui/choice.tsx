import { useId } from 'react'
import { Icon } from './icons.tsx'

type Props = {
  label: string
  value: string
  onChange: (value: string) => void
  options: readonly { value: string; label: string }[]
  hint?: string
  labelHidden?: boolean
}

/** The browser's own list of choices: it works with every keyboard, screen reader and phone, and weighs nothing. */
export function Choice({ label, value, onChange, options, hint, labelHidden }: Props) {
  const id = useId()
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
          aria-describedby={hint ? `${id}-hint` : undefined}
          onChange={(event) => onChange(event.target.value)}
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
    </div>
  )
}
