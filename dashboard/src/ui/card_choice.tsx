import { RadioChoice } from './radio_choice.tsx'

type Props<Value extends string> = {
  label: string
  /** What the API calls it, for its errors to appear here. */
  name: string
  value: Value
  onChange: (value: Value) => void
  options: readonly { value: Value; title: string; detail: string }[]
}

/** One of a few, each with a sentence about it. */
export const CardChoice = <Value extends string>(props: Props<Value>) => (
  <RadioChoice
    {...props}
    frame={(options) => <div className="card-choice">{options}</div>}
    shown={({ title, detail }) => (
      <>
        <b>{title}</b>
        <small>{detail}</small>
      </>
    )}
  />
)
