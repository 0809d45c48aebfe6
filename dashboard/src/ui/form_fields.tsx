import { createContext, use, useEffect } from 'react'
import { Problem } from '../api/problem.ts'

type FormFields = {
  /** Labels of the form's inputs, by API name. */
  labels: Map<string, string>
  errors: Readonly<Record<string, string>>
  clear: (name: string) => void
}
export const FormFieldsContext = createContext<FormFields>({ labels: new Map(), errors: {}, clear: () => {} })

/** Registers an input under its API name, and returns the API's error for it. */
export function useFormField(name: string | undefined, label: string) {
  const { labels, errors, clear } = use(FormFieldsContext)
  useEffect(() => {
    if (!name) return
    labels.set(name, label)
    return () => {
      labels.delete(name)
    }
  }, [labels, name, label])
  return {
    error: name ? errors[name] : undefined,
    /** Clears an error that concerned the previous value. */
    clearError: () => name && clear(name),
  }
}

type Place = { name: string; text: string }

/** Inputs that a problem concerns. Undefined if it also concerns anything else. */
export function placesOf(error: unknown, labels: ReadonlyMap<string, string>): Place[] | undefined {
  if (!(error instanceof Problem)) return undefined
  const places = error.errors.map((each) => placeOf(each, labels)).filter((place) => place !== undefined)
  return places.length > 0 && places.length === error.errors.length ? places : undefined
}

/**
 * The input that an error concerns, and the text to show. The API also names entries of lists and objects:
 * `hostports[1]` is the second entry of the input `hostports`.
 */
function placeOf(
  { field, msg }: { field: string; msg: string },
  labels: ReadonlyMap<string, string>,
): Place | undefined {
  const name = [...labels.keys()]
    .filter((known) => field === known || field.startsWith(`${known}[`) || field.startsWith(`${known}.`))
    .sort((a, b) => b.length - a.length)[0]
  if (name === undefined) return undefined
  if (!msg.startsWith(`${field} `)) return { name, text: msg }
  const [, entry, member] = /^(?:\[(\d+)\]|\.(.+))?/.exec(field.slice(name.length)) ?? []
  const subject = entry ? `Entry ${Number(entry) + 1}` : (member ?? labels.get(name))
  return { name, text: `${subject}${msg.slice(field.length)}` }
}
