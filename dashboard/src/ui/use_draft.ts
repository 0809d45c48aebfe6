import { useState } from 'react'

/** The values of a form, and whether they differ from those that it started with. */
export function useDraft<Values extends object>(initial: Values) {
  const [started] = useState(initial)
  const [values, setValues] = useState(initial)
  return {
    values,
    isDirty: JSON.stringify(values) !== JSON.stringify(started),
    set:
      <Name extends keyof Values>(name: Name) =>
      (value: Values[Name]) =>
        setValues((before) => ({ ...before, [name]: value })),
  }
}
