import { RadioChoice } from './radio_choice.tsx'

type Props<Value extends string> = {
  label: string
  /** Name of the field in the API, to show its errors here. */
  name: string
  value: Value
  onChange: (value: Value) => void
  options: readonly { value: Value; title: string; detail: string }[]
}

/** A choice among few options, each with a sentence about it. */
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
