import { createContext, use, useEffect } from 'react'
import { Problem } from '../api/problem.ts'

type FormFields = {
  /** The labels of the form's inputs, by the API's names for them. */
  labels: Map<string, string>
  errors: Readonly<Record<string, string>>
  clear: (name: string) => void
}
export const FormFieldsContext = createContext<FormFields>({ labels: new Map(), errors: {}, clear: () => {} })

/** Makes an input of a form known under the API's name for it, and finds the error that the API reported for it. */
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
    /** A value that was changed is not the one that the error is about. */
    clearError: () => name && clear(name),
  }
}

type Place = { name: string; text: string }

/** The inputs that a problem is about. Undefined when it is about anything else, too. */
export function placesOf(error: unknown, labels: ReadonlyMap<string, string>): Place[] | undefined {
  if (!(error instanceof Problem)) return undefined
  const places = error.errors.map((each) => placeOf(each, labels)).filter((place) => place !== undefined)
  return places.length > 0 && places.length === error.errors.length ? places : undefined
}

/**
 * The input that an error is about, and what to say beneath it. The API names entries of lists and objects too:
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
