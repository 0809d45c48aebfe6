import type { ReactNode } from 'react'
import { RadioChoice } from './radio_choice.tsx'

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
export const Segments = <Value extends string>({ children, ...props }: Props<Value>) => (
  <RadioChoice
    {...props}
    frame={(options) => (
      <div className="segments-row">
        <div className="segments">{options}</div>
        {children}
      </div>
    )}
    shown={({ label }) => label}
  />
)
