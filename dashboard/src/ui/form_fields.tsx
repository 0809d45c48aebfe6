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

/**
 * The input that a problem is about, and what to say beneath it. The API names entries of lists and objects too:
 * `hostports[1]` is the second entry of the input `hostports`.
 */
export function placeOf(
  error: unknown,
  labels: ReadonlyMap<string, string>,
): { name: string; text: string } | undefined {
  const field = error instanceof Problem ? error.details.field : undefined
  if (!(error instanceof Problem) || field === undefined) return undefined
  const name = [...labels.keys()]
    .filter((known) => field === known || field.startsWith(`${known}[`) || field.startsWith(`${known}.`))
    .sort((a, b) => b.length - a.length)[0]
  if (name === undefined) return undefined
  if (!error.message.startsWith(`${field} `)) return { name, text: error.message }
  const [, entry, member] = /^(?:\[(\d+)\]|\.(.+))?/.exec(field.slice(name.length)) ?? []
  const subject = entry ? `Entry ${Number(entry) + 1}` : (member ?? labels.get(name))
  return { name, text: `${subject}${error.message.slice(field.length)}` }
}
